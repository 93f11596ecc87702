"""What a group wants of a topic: tag expressions, SQL92 conditions, bloom filters of groups."""
