"""A broker: keeps messages, gives them to who asks, and knows how far each group is."""
