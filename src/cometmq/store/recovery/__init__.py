"""Opening a store: checkpoint, recovery, and rebuilding queues and index from the log."""
