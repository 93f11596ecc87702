"""JSON bodies of every request and response, one file per room."""
