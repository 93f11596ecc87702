"""Producers: one send path, transactions, and request-reply."""
