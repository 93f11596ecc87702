"""RocketMQ 4.9 in Python."""

from importlib.metadata import version

__version__ = version("cometmq")
