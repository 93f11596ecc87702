"""A broker: stores messages, serves pulls, and stores consumer offsets."""
