"""Admin functions for messages: send, read, find, trace."""
