"""Bytes on disk: one commit log for all topics, queues and an index that point into it."""
