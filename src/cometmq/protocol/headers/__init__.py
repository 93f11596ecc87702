"""The typed extension fields of every request and response, one module per subject."""
