"""Spark looks for modules of this name: `spark.read.format("rocketmq-store")` works."""

from cometmq.spark.files.store_scan import StoreSource as DefaultSource

__all__ = ["DefaultSource"]
