"""Consumers that poll: lite pull and pull."""
