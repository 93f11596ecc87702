"""The key index: hash files from message keys to physical offsets."""
