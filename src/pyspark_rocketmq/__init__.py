"""Registers `format("rocketmq")`: Spark imports modules named `pyspark_FORMAT`."""

from cometmq.spark.read.source import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
