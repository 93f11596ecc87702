"""The commands for topics."""

from cometmq.admin.command_line import arguments as of
from cometmq.admin.command_line.arguments import Argument as Arg
from cometmq.admin.command_line.command import BROKER, CLUSTER, PERM, TOPIC, WHERE, AdminCommand

TOPICS = (
    AdminCommand(
        "updateTopic",
        "topic create",
        "Create or change a topic",
        "topic:update",
        (
            BROKER,
            CLUSTER,
            TOPIC,
            Arg(
                "r", "readQueueNums", "read_queues", "Read queues (default 8)", of.whole(1, 65_535)
            ),
            Arg(
                "w",
                "writeQueueNums",
                "write_queues",
                "Write queues (default 8)",
                of.whole(1, 65_535),
            ),
            PERM,
            Arg(
                "o",
                "order",
                "order",
                "Ordered topic: queues stay the same while a broker is down",
                of.yes,
            ),
            Arg("u", "unit", "unit", "Set the unit flag", of.yes),
            Arg("s", "hasUnitSub", "unit_sub", "Set the flag for subscriptions of a unit", of.yes),
        ),
        changes=True,
        one_of=WHERE,
    ),
    AdminCommand(
        "deleteTopic",
        "topic delete",
        "Delete a topic from brokers and name servers",
        "topic:delete",
        (TOPIC, CLUSTER._replace(is_required=True)),
        changes=True,
        differs="a topic of the same name in another cluster keeps its route",
    ),
    AdminCommand(
        "updateTopicPerm",
        "topic permission",
        "Change the read and write permission of a topic",
        "topic:update_permission",
        (BROKER, CLUSTER, TOPIC, PERM._replace(is_required=True)),
        changes=True,
        one_of=WHERE,
        differs="the topic keeps its order and unit flags",
    ),
    AdminCommand(
        "topicRoute",
        "topic route",
        "Show the route of a topic: its brokers and queues",
        "topic:route",
        (TOPIC, Arg("l", "list", "as_list", "Show a table", of.flag)),
        text="json",
        differs="all JSON keys are quoted; -l shows no totals",
    ),
    AdminCommand(
        "topicStatus",
        "topic status",
        "Show the first and last offset of each queue",
        "topic:status",
        (TOPIC,),
    ),
    AdminCommand(
        "topicClusterList",
        "topic clusters",
        "List the clusters that have a topic",
        "topic:clusters",
        (TOPIC,),
    ),
    AdminCommand(
        "topicList",
        "topic list",
        "List all topics",
        "topic:every",
        (Arg("c", "clusterModel", "with_groups", "With clusters and consumer groups", of.flag),),
    ),
    AdminCommand(
        "updateOrderConf",
        "topic order",
        "Get, set or delete the queue configuration of an ordered topic",
        "topic:order",
        (
            TOPIC,
            Arg("v", "orderConf", "value", "brokerName:queues;brokerName:queues", of.text),
            Arg(
                "m",
                "method",
                "method",
                "put, get or delete",
                of.one_of("put", "get", "delete"),
                True,
            ),
        ),
        changes=True,
    ),
    AdminCommand(
        "allocateMQ",
        "topic allocate",
        "Show how queues would be assigned to given clients",
        "groups.allocation:allocate",
        (
            TOPIC,
            Arg("i", "ipList", "clients", "Client addresses, separated by commas", of.text, True),
        ),
        text="json",
    ),
    AdminCommand(
        "statsAll",
        "topic rates",
        "Show the message rates of topics and groups",
        "groups.progress:rates",
        (
            Arg(
                "a",
                "activeTopic",
                "active_only",
                "Only topics with traffic in the last 24 hours",
                of.flag,
            ),
            TOPIC._replace(is_required=False),
        ),
    ),
)
