"""Spark looks for modules of this name: `spark.read.format("rocketmq")` works without more."""

from cometmq.spark.read.source import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
