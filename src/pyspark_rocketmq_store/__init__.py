"""Registers `format("rocketmq-store")`: Spark imports modules named `pyspark_FORMAT`."""

from cometmq.spark.files.store_scan import StoreSource as DefaultSource

__all__ = ["DefaultSource"]
