"""The type of a row in the command table, and arguments that several commands share."""

from typing import NamedTuple

from cometmq.admin.command_line import arguments as of
from cometmq.admin.command_line.arguments import Argument as Arg


class AdminCommand(NamedTuple):
    """One command of the admin tool."""

    name: str  # RocketMQ's name; the plain form if RocketMQ has no such command
    plain: str
    about: str
    function: str  # `file:name` in this package
    arguments: tuple[Arg, ...] = ()
    changes: bool = False  # the cluster or files: the command has --dry-run
    one_of: tuple[str, ...] = ()  # parameters of which exactly one must be given
    text: str = "table"  # output format of a map if -o is not given
    differs: str = ""  # what is different from RocketMQ's command
    aliases: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        return self.name == self.plain


BROKER = Arg("b", "brokerAddr", "broker", "Address of a broker", of.address)
CLUSTER = Arg("c", "clusterName", "cluster", "Name of a cluster", of.text)
CLUSTER_TO_CLEAN = Arg("c", "cluster", "cluster", "Name of a cluster", of.text)
WHERE = ("broker", "cluster")
TOPIC = Arg("t", "topic", "topic", "Name of the topic", of.text, True)
GROUP_NAME = Arg("g", "groupName", "group", "Name of the group", of.text, True)
CONSUMER_GROUP = Arg("g", "consumerGroup", "group", "Name of the consumer group", of.text)
CLIENT = Arg(
    "d", "clientId", "client_id", "Have this client consume the message; needs -g", of.text
)
KEY = Arg("k", "key", "key", "Key", of.text, True)
VALUE = Arg("v", "value", "value", "Value", of.as_it_is, True)
NAMESPACE = Arg("s", "namespace", "namespace", "Namespace", of.text, True)
BROKER_NAME = Arg("b", "brokerName", "broker_name", "Name of the broker", of.text, True)
RESET_GROUP = Arg("g", "group", "group", "Name of the consumer group", of.text, True)
FORCE = Arg("f", "force", "force", "false: never move forward", of.yes)
BEGIN = Arg(
    "b", "beginTimestamp", "begin_ms", "Only messages stored at or after this time", of.time
)
END = Arg("e", "endTimestamp", "end_ms", "Only messages stored before this time", of.time)
CHARSET = Arg("c", "charsetName", "charset", "Character set of bodies (default UTF-8)", of.text)
TAGS = Arg(
    "s", "subExpression", "expression", "Only messages with these tags: TagA || TagB", of.text
)
FOLDER = Arg(
    "f", "filePath", "folder", "Folder for the file (default: the temporary folder)", of.text
)
AMOUNT = Arg("a", "amount", "amount", "Number of messages (default 100)", of.count)
SIZE = Arg("s", "size", "size", "Body size in bytes (default 128)", of.count)
ROUNDS = Arg("", "rounds", "rounds", "Stop after this many rounds", of.count, False, True)
PERM = Arg("p", "perm", "perm", "2: write, 4: read, 6: both", of.permission)
SECONDS = "Repeat with this interval in seconds"
