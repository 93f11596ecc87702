"""Parts of the send handlers: admission, destination and replies."""
