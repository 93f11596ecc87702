"""Message filters of consumer groups: tags, SQL92 and bloom bits."""
