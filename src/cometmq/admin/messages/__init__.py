"""Commands about messages: send, read, find, trace."""
