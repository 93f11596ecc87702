"""Every command: RocketMQ's name and flags, our plain form, and the function that does it.

Functions are named by their file and their own name, so that one command imports one room.
"""

from cometmq.admin.command_line.client_commands import GROUPS, MESSAGES, OFFSETS, TOPICS
from cometmq.admin.command_line.server_commands import ACCOUNTS, BROKERS, CLUSTERS, EXPORTS

ALL = TOPICS + GROUPS + OFFSETS + MESSAGES + BROKERS + CLUSTERS + ACCOUNTS + EXPORTS
