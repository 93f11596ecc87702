"""Typed extension fields of every request and response, one file per room."""
