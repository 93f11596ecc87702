"""The rows of the table that administrators, consoles and slaves ask for."""

from cometmq.broker.handlers import declined, policy
from cometmq.broker.handlers.checks import Checks
from cometmq.broker.handlers.consumer import ConsumerHandlers
from cometmq.broker.handlers.group import GroupHandlers
from cometmq.broker.handlers.progress import ProgressHandlers
from cometmq.broker.handlers.query import QueryHandlers
from cometmq.broker.handlers.reply import ReplyHandlers
from cometmq.broker.handlers.reset import ResetHandlers
from cometmq.broker.handlers.runtime import RuntimeHandlers
from cometmq.broker.handlers.topic import TopicHandlers
from cometmq.broker.parts import Parts
from cometmq.broker.statistics.consumer_lag import FallBehind
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers import acl as accounts
from cometmq.protocol.headers import consumer as consumers
from cometmq.protocol.headers import filtersrv as filter_servers
from cometmq.protocol.headers import query as queries
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.headers.client import ConsumerGroupHeader, ProducerGroupHeader
from cometmq.protocol.headers.group import DeleteGroupHeader
from cometmq.protocol.headers.send import SendHeader, SendHeaderV2
from cometmq.protocol.headers.topic import CreateTopicHeader, TopicHeader
from cometmq.remoting.access import (
    ADMIN,
    CONSUME,
    OF_GROUP,
    OF_TOPIC,
    PUBLISH,
    REPLICA,
    SUBSCRIBE,
    AccessRule,
    Action,
)
from cometmq.remoting.dispatch import Route


def topic_routes(p: Parts, checks: Checks) -> dict[int, Route]:
    topics = TopicHandlers(p.tables, checks, p.storage, p.context.identity, p.registration)
    groups = GroupHandlers(p.tables.groups, p.tables.offsets)
    code = RequestCode
    return {
        code.UPDATE_AND_CREATE_TOPIC: Route(
            topics.update, CreateTopicHeader, ADMIN, writes=True, on_slave=policy.SLAVE_NO_CHANGE
        ),
        code.DELETE_TOPIC_IN_BROKER: Route(
            topics.delete, TopicHeader, ADMIN, writes=True, on_slave=policy.SLAVE_NO_CHANGE
        ),
        code.GET_ALL_TOPIC_CONFIG: Route(topics.all, NoHeader, REPLICA),
        code.GET_TOPIC_STATS_INFO: Route(topics.stats, TopicHeader, OF_TOPIC),
        code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Route(topics.system, NoHeader, ADMIN),
        code.QUERY_TOPIC_CONSUME_BY_WHO: Route(topics.consumers, TopicHeader, ADMIN),
        code.CLEAN_UNUSED_TOPIC: Route(topics.clean_unused, NoHeader, ADMIN, writes=True),
        code.CLEAN_EXPIRED_CONSUMEQUEUE: Route(topics.clean_queues, NoHeader, ADMIN, writes=True),
        code.DELETE_EXPIRED_COMMITLOG: Route(topics.clean_expired, NoHeader, ADMIN, writes=True),
        code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Route(
            groups.update, NoHeader, ADMIN, writes=True, on_slave=policy.SLAVE_NO_CHANGE
        ),
        code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Route(groups.all, NoHeader, REPLICA),
        code.DELETE_SUBSCRIPTIONGROUP: Route(
            groups.delete, DeleteGroupHeader, ADMIN, writes=True, on_slave=policy.SLAVE_NO_CHANGE
        ),
    }


def consumer_routes(p: Parts, checks: Checks) -> dict[int, Route]:
    """Connections, consumer offsets and consumer lag, and resets of offsets."""
    room = ConsumerHandlers(p.tables.clients, p.storage.store, p.context.identity)
    progress = ProgressHandlers(
        checks, p.tables, p.storage, p.stats, p.context.identity, p.delivery.schedule
    )
    moves = ResetHandlers(checks, p.tables, p.storage.store, p.context.identity)
    code = RequestCode
    return {
        code.GET_CONSUMER_CONNECTION_LIST: Route(room.connections, ConsumerGroupHeader, OF_GROUP),
        code.GET_PRODUCER_CONNECTION_LIST: Route(
            room.producer_connections, ProducerGroupHeader, ADMIN
        ),
        code.GET_ALL_PRODUCER_INFO: Route(room.producers, NoHeader, ADMIN),
        code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Route(
            room.status, consumers.ConsumerStatusHeader, ADMIN
        ),
        code.GET_CONSUMER_RUNNING_INFO: Route(room.running, consumers.RunningInfoHeader, ADMIN),
        code.CONSUME_MESSAGE_DIRECTLY: Route(room.consume, consumers.ConsumeDirectlyHeader, ADMIN),
        code.GET_CONSUME_STATS: Route(progress.of_group, consumers.ConsumeStatsHeader, OF_GROUP),
        code.GET_BROKER_CONSUME_STATS: Route(
            progress.of_broker, consumers.BrokerConsumeStatsHeader, ADMIN
        ),
        code.QUERY_CONSUME_TIME_SPAN: Route(progress.time_span, consumers.TimeSpanHeader, CONSUME),
        code.QUERY_CORRECTION_OFFSET: Route(progress.correction, consumers.CorrectionHeader, ADMIN),
        code.GET_ALL_CONSUMER_OFFSET: Route(progress.all_offsets, NoHeader, REPLICA),
        code.GET_ALL_DELAY_OFFSET: Route(progress.all_delay_offsets, NoHeader, REPLICA),
        code.INVOKE_BROKER_TO_RESET_OFFSET: Route(
            moves.reset, consumers.ResetOffsetHeader, ADMIN, writes=True
        ),
        code.CLONE_GROUP_OFFSET: Route(
            moves.clone, consumers.CloneOffsetHeader, ADMIN, writes=True
        ),
    }


def message_routes(p: Parts, checks: Checks) -> dict[int, Route]:
    """Searches, and replies to requests."""
    room = QueryHandlers(checks, p.storage.store, p.filters, p.tables.clients)
    replying = ReplyHandlers(
        checks, p.tables.clients, p.storage.intake, p.stats, p.context.identity, p.context.clock
    )
    code = RequestCode
    return {
        code.QUERY_MESSAGE: Route(room.by_key, queries.QueryMessageHeader, SUBSCRIBE, "query"),
        code.VIEW_MESSAGE_BY_ID: Route(
            room.by_place, queries.ViewMessageHeader, AccessRule(late=Action.SUB), "query"
        ),
        code.QUERY_CONSUME_QUEUE: Route(room.queue, queries.QueryConsumeQueueHeader, ADMIN),
        code.SEND_REPLY_MESSAGE: Route(replying.reply, SendHeader, PUBLISH, "reply", writes=True),
        code.SEND_REPLY_MESSAGE_V2: Route(
            replying.reply, SendHeaderV2, PUBLISH, "reply", writes=True
        ),
    }


def runtime_routes(p: Parts) -> dict[int, Route]:
    """The broker about itself."""
    lag = FallBehind(p.storage.facts, p.tables.offsets, p.context.clock)
    room = RuntimeHandlers(
        p.context, p.tables.clients, p.stats, lag, p.storage, p.delivery.schedule
    )
    code = RequestCode
    return {
        code.UPDATE_BROKER_CONFIG: Route(room.update_config, NoHeader, ADMIN, writes=True),
        code.GET_BROKER_CONFIG: Route(room.config, NoHeader, ADMIN),
        code.GET_BROKER_RUNTIME_INFO: Route(room.info, NoHeader, REPLICA),
        code.VIEW_BROKER_STATS_DATA: Route(room.view_stats, queries.ViewStatsHeader, ADMIN),
    }


def declined_routes() -> dict[int, Route]:
    """What is known, and not to be had."""
    code = RequestCode
    return {
        code.UPDATE_AND_CREATE_ACL_CONFIG: Route(
            declined.access_control, accounts.CreateAccountHeader, ADMIN
        ),
        code.DELETE_ACL_CONFIG: Route(declined.access_control, accounts.DeleteAccountHeader, ADMIN),
        code.GET_BROKER_CLUSTER_ACL_INFO: Route(declined.access_control, NoHeader, ADMIN),
        code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Route(
            declined.access_control, accounts.WhiteAddressesHeader, ADMIN
        ),
        code.GET_BROKER_CLUSTER_ACL_CONFIG: Route(declined.access_control, NoHeader, ADMIN),
        code.REGISTER_FILTER_SERVER: Route(
            declined.filter_classes, filter_servers.RegisterFilterServerHeader, ADMIN
        ),
        code.REGISTER_MESSAGE_FILTER_CLASS: Route(
            declined.filter_classes, filter_servers.RegisterFilterClassHeader, ADMIN
        ),
    }
