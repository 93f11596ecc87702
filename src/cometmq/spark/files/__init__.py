"""Readers of store files: log frames, queue units and the format `rocketmq-store`."""
