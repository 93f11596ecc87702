"""Commands about brokers, clusters, name servers, accounts and exports."""

from cometmq.admin.command_line import arguments as of
from cometmq.admin.command_line.arguments import Argument as Arg
from cometmq.admin.command_line.command import (
    AMOUNT,
    BROKER,
    BROKER_NAME,
    CLUSTER,
    CLUSTER_TO_CLEAN,
    FOLDER,
    KEY,
    NAMESPACE,
    ROUNDS,
    SECONDS,
    SIZE,
    VALUE,
    WHERE,
    AdminCommand,
)

BROKERS = (
    AdminCommand(
        "updateBrokerConfig", "broker set", "Set one key of a running broker",
        "broker:update_settings", (BROKER, CLUSTER, KEY, VALUE), changes=True, one_of=WHERE,
    ),
    AdminCommand(
        "brokerStatus", "broker status", "What a broker tells of itself", "broker:status",
        (BROKER, CLUSTER), one_of=WHERE, differs="with -c a block for each broker",
    ),
    AdminCommand(
        "getBrokerConfig", "broker config", "Settings of a broker", "broker:settings",
        (BROKER, CLUSTER), one_of=WHERE,
    ),
    AdminCommand(
        "brokerConsumeStats", "broker lag", "How far all groups of a broker are", "broker:lag",
        (BROKER._replace(is_required=True),
         Arg("t", "timeoutMillis", "timeout_ms", "Patience, 50000", of.count),
         Arg("l", "level", "level", "Queues that are behind by so many", of.offset),
         Arg("o", "order", "order", "Of ordered topics", of.yes)),
    ),
    AdminCommand(
        "sendMsgStatus", "broker probe", "How long sends to a broker take",
        "messages.sending:probe_broker",
        (BROKER_NAME, Arg("s", "messageSize", "size", "Bytes of each, 128", of.count),
         Arg("c", "count", "count", "How many, 50", of.count)),
        changes=True, differs="a table",
    ),
    AdminCommand(
        "cleanExpiredCQ", "broker clean-queues", "Drop files of queues whose messages are gone",
        "broker:clean_queues", (BROKER, CLUSTER_TO_CLEAN), changes=True,
    ),
    AdminCommand(
        "deleteExpiredCommitLog", "broker clean-log", "Delete expired files of the log now",
        "broker:delete_expired", (BROKER, CLUSTER_TO_CLEAN), changes=True,
    ),
    AdminCommand(
        "cleanUnusedTopic", "broker clean-topics", "Drop queues of topics that are gone",
        "broker:clean_topics", (BROKER, CLUSTER_TO_CLEAN), changes=True,
    ),
)  # fmt: skip

CLUSTERS = (
    AdminCommand(
        "clusterList", "cluster list", "All brokers, and how busy they are", "cluster:nodes",
        (Arg("m", "moreStats", "more", "Totals of days", of.flag),
         Arg("i", "interval", "interval_s", SECONDS, of.count), ROUNDS),
        differs="load has columns of its own; a broker that does not answer says why",
    ),
    AdminCommand(
        "clusterRT", "cluster probe", "How long sends to each cluster take",
        "messages.sending:probe_clusters",
        (AMOUNT, SIZE, CLUSTER_TO_CLEAN,
         Arg("p", "print log", "as_log", "Taken and not used", of.yes),
         Arg("m", "machine room", "room", "Name of the machine room", of.text),
         Arg("i", "interval", "interval_s", SECONDS, of.count), ROUNDS),
        changes=True, differs="once, unless -i says how often",
    ),
    AdminCommand(
        "getNamesrvConfig", "namesrv config", "Settings of name servers", "namesrv:settings",
    ),
    AdminCommand(
        "updateNamesrvConfig", "namesrv set", "Set one key of the name servers",
        "namesrv:update_settings", (KEY, VALUE), changes=True,
    ),
    AdminCommand(
        "wipeWritePerm", "namesrv wipe-write", "Have nobody write to a broker",
        "namesrv:wipe_write", (BROKER_NAME,), changes=True,
        differs="a broker that is not there is an error",
    ),
    AdminCommand(
        "addWritePerm", "namesrv add-write", "Have a broker written to again",
        "namesrv:add_write", (BROKER_NAME,), changes=True,
        differs="a broker that is not there is an error",
    ),
    AdminCommand(
        "updateKvConfig", "kv put", "Put a value", "kv:update", (NAMESPACE, KEY, VALUE),
        changes=True,
    ),
    AdminCommand(
        "deleteKvConfig", "kv delete", "Delete a value", "kv:delete", (NAMESPACE, KEY),
        changes=True,
    ),
    AdminCommand(
        "doctor", "doctor", "Is every address reachable? If not, what to set", "doctor:examine",
    ),
)  # fmt: skip

ACCESS_KEY = Arg("a", "accessKey", "access_key", "Access key", of.text, True)

ACCOUNTS = (
    AdminCommand(
        "updateAclConfig", "acl put", "Create an account, or change it", "acl:update",
        (BROKER, CLUSTER, ACCESS_KEY,
         Arg("s", "secretKey", "secret_key", "Secret key", of.text, True),
         Arg("w", "whiteRemoteAddress", "white_address", "Address that it may use", of.text),
         Arg("i", "defaultTopicPerm", "default_topic_perm", "PUB, SUB, PUB|SUB or DENY", of.text),
         Arg("u", "defaultGroupPerm", "default_group_perm", "SUB or DENY", of.text),
         Arg("t", "topicPerms", "topic_perms", "topicA=DENY,topicB=PUB", of.text),
         Arg("g", "groupPerms", "group_perms", "groupA=DENY,groupB=SUB", of.text),
         Arg("m", "admin", "is_admin", "May do everything", of.yes)),
        changes=True, one_of=WHERE,
    ),
    AdminCommand(
        "deleteAclConfig", "acl delete", "Remove an account", "acl:delete",
        (BROKER, CLUSTER, ACCESS_KEY), changes=True, one_of=WHERE,
        aliases=("deleteAccessConfig",),
    ),
    AdminCommand(
        "clusterAclConfigVersion", "acl version", "How often accounts were changed",
        "acl:versions", (BROKER, CLUSTER), one_of=WHERE,
    ),
    AdminCommand(
        "updateGlobalWhiteAddr", "acl allow", "Set the addresses that need no account",
        "acl:allow_addresses",
        (BROKER, CLUSTER,
         Arg("g", "globalWhiteRemoteAddresses", "addresses", "10.10.103.*,192.168.0.*", of.text,
             True),
         Arg("p", "aclFileFullPath", "file", "In this file of the broker", of.text)),
        changes=True, one_of=WHERE,
    ),
)  # fmt: skip

EXPORTS = (
    AdminCommand(
        "exportMetadata", "export metadata", "Topics and groups, to a file", "export:metadata",
        (CLUSTER, BROKER, FOLDER, Arg("t", "topic", "only_topics", "Topics only", of.flag),
         Arg("g", "subscriptionGroup", "only_groups", "Groups only", of.flag),
         Arg("s", "specialTopic", "special", "Retry and dead-letter topics too", of.flag)),
        changes=True, one_of=WHERE,
        differs="with -b the time of the export in place of the version; -b alone writes both",
    ),
    AdminCommand(
        "exportConfigs", "export configs", "Settings of brokers, to a file", "export:settings",
        (CLUSTER._replace(is_required=True), FOLDER), changes=True,
    ),
    AdminCommand(
        "exportMetrics", "export metrics", "How busy brokers are, to a file", "export:metrics",
        (CLUSTER._replace(is_required=True), FOLDER), changes=True,
        differs="without the number of processors and the versions of clients",
    ),
)  # fmt: skip
