"""Filters of subscriptions: tag expressions, SQL92 conditions, bloom filters."""
