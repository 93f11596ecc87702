"""Charts of what jobs found."""
