"""Idempotent consumption: a listener runs once per business key."""
