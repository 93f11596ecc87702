"""The table of all commands: RocketMQ's name and flags, the plain form, and the function.

A function is named as `module:name`, so that running one command imports only one module.
"""

from cometmq.admin.command_line.group_commands import GROUPS, OFFSETS
from cometmq.admin.command_line.message_commands import MESSAGES
from cometmq.admin.command_line.server_commands import ACCOUNTS, BROKERS, CLUSTERS, EXPORTS
from cometmq.admin.command_line.topic_commands import TOPICS

ALL = TOPICS + GROUPS + OFFSETS + MESSAGES + BROKERS + CLUSTERS + ACCOUNTS + EXPORTS
