"""Stored messages: the record layout, batches, properties, message ids, compression."""
