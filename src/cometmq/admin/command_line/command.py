"""A command, and the arguments that several of them share."""

from typing import NamedTuple

from cometmq.admin.command_line import arguments as of
from cometmq.admin.command_line.arguments import Argument as Arg


class AdminCommand(NamedTuple):
    """One row of the table."""

    name: str  # RocketMQ's; of a command of ours, its plain form
    plain: str
    about: str
    function: str  # `file:name` in this package
    arguments: tuple[Arg, ...] = ()
    changes: bool = False  # something: it can be run dry
    one_of: tuple[str, ...] = ()  # parameters of which just one must be given
    text: str = "table"  # how a map that it returns is shown to people
    differs: str = ""  # from RocketMQ's: how
    aliases: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        """RocketMQ has no such command."""
        return self.name == self.plain


BROKER = Arg("b", "brokerAddr", "broker", "Address of a broker", of.address)
CLUSTER = Arg("c", "clusterName", "cluster", "Name of a cluster", of.text)
CLUSTER_TO_CLEAN = Arg("c", "cluster", "cluster", "Name of a cluster", of.text)
WHERE = ("broker", "cluster")
TOPIC = Arg("t", "topic", "topic", "Name of the topic", of.text, True)
GROUP_NAME = Arg("g", "groupName", "group", "Name of the group", of.text, True)
CONSUMER_GROUP = Arg("g", "consumerGroup", "group", "Name of the consumer group", of.text)
CLIENT = Arg("d", "clientId", "client_id", "Have this consumer consume it, with -g", of.text)
KEY = Arg("k", "key", "key", "Key", of.text, True)
VALUE = Arg("v", "value", "value", "Value", of.as_it_is, True)
NAMESPACE = Arg("s", "namespace", "namespace", "Namespace", of.text, True)
BROKER_NAME = Arg("b", "brokerName", "broker_name", "Name of the broker", of.text, True)
RESET_GROUP = Arg("g", "group", "group", "Name of the consumer group", of.text, True)
FORCE = Arg("f", "force", "force", "false: never move forwards", of.yes)
BEGIN = Arg("b", "beginTimestamp", "begin_ms", "Of messages stored from then on", of.time)
END = Arg("e", "endTimestamp", "end_ms", "Of messages stored before", of.time)
CHARSET = Arg("c", "charsetName", "charset", "Of bodies, UTF-8 if none is given", of.text)
TAGS = Arg("s", "subExpression", "expression", "Of these tags: TagA || TagB", of.text)
FOLDER = Arg("f", "filePath", "folder", "Folder to write to; else temporary", of.text)
AMOUNT = Arg("a", "amount", "amount", "How many messages, 100", of.count)
SIZE = Arg("s", "size", "size", "Bytes of each, 128", of.count)
ROUNDS = Arg("", "rounds", "rounds", "Stop after so many", of.count, False, True)
PERM = Arg("p", "perm", "perm", "2: write, 4: read, 6: both", of.permission)
SECONDS = "Seconds, to do it again and again"
