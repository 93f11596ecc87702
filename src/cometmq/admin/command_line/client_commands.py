"""Commands about topics, groups, offsets and messages."""

from cometmq.admin.command_line import arguments as of
from cometmq.admin.command_line.arguments import Argument as Arg
from cometmq.admin.command_line.command import (
    AMOUNT,
    BEGIN,
    BROKER,
    BROKER_NAME,
    CHARSET,
    CLIENT,
    CLUSTER,
    CONSUMER_GROUP,
    END,
    FORCE,
    GROUP_NAME,
    PERM,
    RESET_GROUP,
    ROUNDS,
    SIZE,
    TAGS,
    TOPIC,
    WHERE,
    AdminCommand,
)

_NO_TEMPORARY_FILE = "shows the body, and writes no file of it"
_OWN_LINE = "a line has its own form, with MSGID and BODY as there"

TOPICS = (
    AdminCommand(
        "updateTopic", "topic create", "Create a topic, or change it", "topic:update",
        (BROKER, CLUSTER, TOPIC,
         Arg("r", "readQueueNums", "read_queues", "Queues to read, 8", of.whole(1, 65_535)),
         Arg("w", "writeQueueNums", "write_queues", "Queues to write, 8", of.whole(1, 65_535)),
         PERM,
         Arg("o", "order", "order", "Queues stay the same while a broker is down", of.yes),
         Arg("u", "unit", "unit", "Of a unit", of.yes),
         Arg("s", "hasUnitSub", "unit_sub", "Has subscribers of a unit", of.yes)),
        changes=True, one_of=WHERE,
    ),
    AdminCommand(
        "deleteTopic", "topic delete", "Remove a topic from brokers and name servers",
        "topic:delete", (TOPIC, CLUSTER._replace(is_required=True)), changes=True,
        differs="a topic of the same name in another cluster keeps its route",
    ),
    AdminCommand(
        "updateTopicPerm", "topic permission", "Change what may be done with a topic",
        "topic:update_permission", (BROKER, CLUSTER, TOPIC, PERM._replace(is_required=True)),
        changes=True, one_of=WHERE, differs="the topic keeps its order and unit flags",
    ),
    AdminCommand(
        "topicRoute", "topic route", "Which brokers serve a topic", "topic:route",
        (TOPIC, Arg("l", "list", "as_list", "As a table", of.flag)), text="json",
        differs="JSON has its keys quoted; no line of totals with -l",
    ),
    AdminCommand("topicStatus", "topic status", "Bounds of each queue", "topic:status", (TOPIC,)),
    AdminCommand(
        "topicClusterList", "topic clusters", "Clusters that have a topic", "topic:clusters",
        (TOPIC,),
    ),
    AdminCommand(
        "topicList", "topic list", "All topics", "topic:every",
        (Arg("c", "clusterModel", "with_groups", "By cluster, with their groups", of.flag),),
    ),
    AdminCommand(
        "updateOrderConf", "topic order", "Which queues an ordered topic has", "topic:order",
        (TOPIC,
         Arg("v", "orderConf", "value", "brokerName:queues;brokerName:queues", of.text),
         Arg("m", "method", "method", "put, get or delete", of.one_of("put", "get", "delete"),
             True)),
        changes=True,
    ),
    AdminCommand(
        "allocateMQ", "topic allocate", "Who would get which queue", "groups.allocation:allocate",
        (TOPIC, Arg("i", "ipList", "clients", "Clients, with commas", of.text, True)),
        text="json",
    ),
    AdminCommand(
        "statsAll", "topic rates", "What goes in and out", "groups.progress:rates",
        (Arg("a", "activeTopic", "active_only", "Those that are used", of.flag),
         TOPIC._replace(is_required=False)),
    ),
)  # fmt: skip

GROUPS = (
    AdminCommand(
        "updateSubGroup", "group create", "Create a consumer group, or change it",
        "groups.group:update",
        (BROKER, CLUSTER, GROUP_NAME,
         Arg("s", "consumeEnable", "enabled", "May consume, true", of.yes),
         Arg("m", "consumeFromMinEnable", "from_min", "May begin at the first, false", of.yes),
         Arg("d", "consumeBroadcastEnable", "broadcast", "May broadcast, false", of.yes),
         Arg("q", "retryQueueNums", "retry_queues", "Queues for retries, 1", of.whole(0, 65_535)),
         Arg("r", "retryMaxTimes", "retries", "Retries before a message is dead, 16",
             of.whole(-1)),
         Arg("i", "brokerId", "broker_id", "Read from this node, 0", of.index),
         Arg("w", "whichBrokerWhenConsumeSlowly", "slow_broker_id", "And if slow, 1", of.index),
         Arg("a", "notifyConsumerIdsChanged", "notify", "Tell members of others, true", of.yes)),
        changes=True, one_of=WHERE,
    ),
    AdminCommand(
        "deleteSubGroup", "group delete", "Remove a consumer group", "groups.group:delete",
        (BROKER, CLUSTER, GROUP_NAME,
         Arg("r", "removeOffset", "remove_offset", "And its offsets", of.yes)),
        changes=True, one_of=WHERE,
    ),
    AdminCommand(
        "getConsumerConfig", "group config", "Settings of a group", "groups.group:settings",
        (GROUP_NAME,), differs="a group that no broker has is an error",
    ),
    AdminCommand(
        "consumerProgress", "group lag", "How far groups are", "groups.progress:of_groups",
        (GROUP_NAME._replace(is_required=False),
         Arg("s", "showClientIP", "client_ip", "Who has which queue", of.yes)),
        differs="a column more: why it is not known how far a group is",
    ),
    AdminCommand(
        "consumerConnection", "group members", "Consumers of a group, and what they want",
        "groups.members:consumers", (CONSUMER_GROUP._replace(is_required=True), BROKER),
    ),
    AdminCommand(
        "consumerStatus", "group status", "What runs inside consumers", "groups.members:status",
        (CONSUMER_GROUP._replace(is_required=True),
         Arg("i", "clientId", "client_id", "Of this one", of.text), BROKER,
         Arg("s", "jstack", "stacks", "With its threads", of.flag)),
        differs="writes no files: ask for a client with -i; queues with two owners are told,"
                " and members that do not answer",
    ),
    AdminCommand(
        "producerConnection", "producer members", "Producers of a group",
        "groups.members:producers",
        (Arg("g", "producerGroup", "group", "Name of the producer group", of.text, True), TOPIC),
        differs="asks all brokers of the topic, not one by chance",
    ),
    AdminCommand(
        "producer", "producer list", "All producers of a broker", "groups.members:producers_at",
        (Arg("b", "broker", "broker", "Address of the broker", of.address, True),),
    ),
    AdminCommand(
        "startMonitoring", "group watch", "What groups have still to do, every minute",
        "groups.progress:monitor",
        (Arg("", "interval", "interval_s", "Seconds between two looks, 60", of.count, False, True),
         ROUNDS),
        differs="a table each minute, and no log; moved offsets are in the topic"
                " OFFSET_MOVED_EVENT",
    ),
)  # fmt: skip

OFFSETS = (
    AdminCommand(
        "resetOffsetByTime", "offset reset-by-time", "Move a group to a time",
        "groups.offsets:reset_by_time",
        (RESET_GROUP, TOPIC, Arg("s", "timestamp", "time_ms", "now, ms or a time", of.time, True),
         FORCE, Arg("c", "cplus", "cplus", "Its members are C++", of.flag)),
        changes=True, differs="says for each queue where the group was",
    ),
    AdminCommand(
        "skipAccumulatedMessage", "offset skip", "Move a group past all it has not consumed",
        "groups.offsets:skip", (RESET_GROUP, TOPIC, FORCE), changes=True,
        differs="says for each queue where the group was",
    ),
    AdminCommand(
        "cloneGroupOffset", "offset clone", "Put a group where another is", "groups.offsets:clone",
        (Arg("s", "srcGroup", "source", "Group to copy", of.text, True),
         Arg("d", "destGroup", "group", "Group to move", of.text, True), TOPIC,
         Arg("o", "offline", "offline", "Taken and not used", of.yes)),
        changes=True, differs="refused while the group has members, who would overwrite it",
    ),
    AdminCommand(
        "offset reset", "offset reset", "Move a group: to a time, an offset, an end, or by so many",
        "groups.offsets:reset_to",
        (RESET_GROUP, TOPIC,
         Arg("", "to-earliest", "earliest", "To the first message", of.flag, False, True),
         Arg("", "to-latest", "latest", "Past the last message", of.flag, False, True),
         Arg("", "to-time", "time_ms", "now, ms or a time", of.time, False, True),
         Arg("", "to-offset", "offset", "To this offset", of.offset, False, True),
         Arg("", "shift-by", "shift", "So many forwards, or back", of.shift, False, True),
         Arg("", "queue", "queue_id", "In this queue", of.index, False, True),
         Arg("", "broker-name", "broker_name", "At this broker", of.text, False, True)),
        changes=True,
    ),
)  # fmt: skip

MESSAGES = (
    AdminCommand(
        "queryMsgById", "message get", "A message by its offset id", "messages.message:show_by_id",
        (Arg("i", "msgId", "message_id", "Offset id, or several with commas", of.text, True),
         CONSUMER_GROUP, CLIENT,
         Arg("s", "sendMessage", "resend", "Send it once more", of.yes),
         Arg("u", "unitName", "unit", "Taken and not used", of.text)),
        changes=True, differs=_NO_TEMPORARY_FILE,
    ),
    AdminCommand(
        "queryMsgByKey", "message find", "Messages by their key", "messages.message:show_by_key",
        (TOPIC, Arg("k", "msgKey", "key", "Key", of.text, True)),
        differs="a column more: the broker",
    ),
    AdminCommand(
        "queryMsgByUniqueKey", "message get-by-key", "A message by its sender's id",
        "messages.message:show_by_unique_key",
        (Arg("i", "msgId", "message_id", "Id that its sender gave it", of.text, True),
         CONSUMER_GROUP, CLIENT, TOPIC,
         Arg("a", "showAll", "every", "All of that id", of.flag)),
        changes=True, differs=_NO_TEMPORARY_FILE + "; -a works, which fails in 4.9.7",
    ),
    AdminCommand(
        "queryMsgByOffset", "message at", "The message at a place of a queue",
        "messages.message:show_by_offset",
        (TOPIC, BROKER_NAME, Arg("i", "queueId", "queue_id", "Queue", of.index, True),
         Arg("o", "offset", "offset", "Offset", of.offset, True)),
        differs=_NO_TEMPORARY_FILE,
    ),
    AdminCommand(
        "queryMsgTraceById", "message trace", "Who sent and consumed a message",
        "messages.tracing:by_id",
        (Arg("i", "msgId", "message_id", "Id that its sender gave it", of.text, True),
         Arg("t", "traceTopic", "trace_topic", "Topic of traces", of.text)),
        aliases=("QueryMsgTraceById",), differs="one table for sends and consumptions",
    ),
    AdminCommand(
        "printMsg", "message print", "All messages of a topic", "messages.reading:show_topic",
        (TOPIC, CHARSET, TAGS, BEGIN, END,
         Arg("d", "printBody", "with_body", "With bodies, true", of.yes)),
        differs=_OWN_LINE,
    ),
    AdminCommand(
        "printMsgByQueue", "message print-queue", "All messages of a queue",
        "messages.reading:show_queue",
        (TOPIC, Arg("a", "brokerName", "broker_name", "Name of the broker", of.text, True),
         Arg("i", "queueId", "queue_id", "Queue", of.index, True), CHARSET, TAGS, BEGIN, END,
         Arg("p", "print msg", "with_messages", "Print them", of.yes),
         Arg("d", "printBody", "with_body", "With bodies", of.yes),
         Arg("f", "calculate", "by_tag", "Count them by tag", of.yes)),
        differs=_OWN_LINE,
    ),
    AdminCommand(
        "sendMessage", "message send", "Send a message", "messages.sending:send",
        (TOPIC, Arg("p", "body", "body", "Body, UTF-8", of.as_it_is, True),
         Arg("k", "key", "keys", "Keys", of.text), Arg("c", "tags", "tags", "Tags", of.text),
         Arg("b", "broker", "broker_name", "Name of the broker", of.text),
         Arg("i", "qid", "queue_id", "Queue, with -b", of.index),
         Arg("m", "msgTraceEnable", "trace", "With a trace", of.yes)),
        changes=True, differs="columns more: where it is, and how long it took",
    ),
    AdminCommand(
        "consumeMessage", "message read", "The first messages of a topic or queue",
        "messages.reading:consume",
        (TOPIC, BROKER_NAME._replace(is_required=False),
         Arg("i", "queueId", "queue_id", "Queue", of.index),
         Arg("o", "offset", "offset", "From this one on, with -b and -i", of.offset),
         CONSUMER_GROUP, BEGIN._replace(short="s"), END,
         Arg("c", "MessageNumber", "count", "How many, 128", of.count)),
        differs=_OWN_LINE,
    ),
    AdminCommand(
        "checkMsgSendRT", "message probe", "How long sends to a topic take",
        "messages.sending:probe_topic", (TOPIC, AMOUNT, SIZE), changes=True,
    ),
    AdminCommand(
        "queryCq", "message entries", "Entries of a consume queue",
        "messages.consume_queue:entries",
        (TOPIC, Arg("q", "queue", "queue_id", "Queue", of.index, True),
         Arg("i", "index", "index", "First entry", of.offset, True),
         Arg("c", "count", "count", "How many, 10", of.count),
         Arg("b", "broker", "broker", "Address of the broker", of.address),
         Arg("g", "consumer", "group", "What this group's filter says of them", of.text)),
    ),
)  # fmt: skip
