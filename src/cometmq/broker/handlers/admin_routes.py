"""The rows of the table that administrators, consoles and slaves ask for."""

from cometmq.broker.handlers import acl, filtersrv
from cometmq.broker.handlers.checks import Checks
from cometmq.broker.handlers.consumer import ConsumerRoom
from cometmq.broker.handlers.group import GroupRoom
from cometmq.broker.handlers.progress import ProgressRoom
from cometmq.broker.handlers.query import QueryRoom
from cometmq.broker.handlers.reply import Replying
from cometmq.broker.handlers.reset import ResetRoom
from cometmq.broker.handlers.runtime import RuntimeRoom
from cometmq.broker.handlers.topic import TopicRoom
from cometmq.broker.parts import Parts
from cometmq.broker.statistics.consumer_lag import FallBehind
from cometmq.broker.statistics.store_facts import StoreFacts
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
from cometmq.remoting.dispatch import Route
from cometmq.remoting.lanes import Lanes


def topic_routes(p: Parts, checks: Checks, facts: StoreFacts) -> dict[int, Route]:
    """Topics and groups."""
    topics = TopicRoom(
        p.topics, checks, p.offsets, p.clients, p.store, facts, p.identity,
        p.registration.settled,
    )  # fmt: skip
    groups = GroupRoom(p.groups, p.offsets)
    code = RequestCode
    return {
        code.UPDATE_AND_CREATE_TOPIC: Route(topics.update, CreateTopicHeader),
        code.DELETE_TOPIC_IN_BROKER: Route(topics.delete, TopicHeader),
        code.GET_ALL_TOPIC_CONFIG: Route(topics.all, NoHeader),
        code.GET_TOPIC_STATS_INFO: Route(topics.stats, TopicHeader),
        code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Route(topics.system, NoHeader),
        code.QUERY_TOPIC_CONSUME_BY_WHO: Route(topics.consumers, TopicHeader),
        code.CLEAN_UNUSED_TOPIC: Route(topics.clean_unused, NoHeader),
        code.CLEAN_EXPIRED_CONSUMEQUEUE: Route(topics.clean_queues, NoHeader),
        code.DELETE_EXPIRED_COMMITLOG: Route(topics.clean_expired, NoHeader),
        code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Route(groups.update, NoHeader),
        code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Route(groups.all, NoHeader),
        code.DELETE_SUBSCRIPTIONGROUP: Route(groups.delete, DeleteGroupHeader),
    }


def consumer_routes(p: Parts, checks: Checks, facts: StoreFacts) -> dict[int, Route]:
    """Who is connected, how far groups are, and moves of them."""
    room = ConsumerRoom(p.clients, p.store, p.identity)
    progress = ProgressRoom(
        checks, p.groups, p.offsets, p.clients, p.store, facts, p.stats, p.identity,
        lambda: p.schedule.body,
    )  # fmt: skip
    moves = ResetRoom(checks, p.groups, p.offsets, p.clients, p.store, p.identity)
    code = RequestCode
    return {
        code.GET_CONSUMER_CONNECTION_LIST: Route(room.connections, ConsumerGroupHeader),
        code.GET_PRODUCER_CONNECTION_LIST: Route(room.producer_connections, ProducerGroupHeader),
        code.GET_ALL_PRODUCER_INFO: Route(room.producers, NoHeader),
        code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Route(
            room.status, consumers.ConsumerStatusHeader
        ),
        code.GET_CONSUMER_RUNNING_INFO: Route(room.running, consumers.RunningInfoHeader),
        code.CONSUME_MESSAGE_DIRECTLY: Route(room.consume, consumers.ConsumeDirectlyHeader),
        code.GET_CONSUME_STATS: Route(progress.of_group, consumers.ConsumeStatsHeader),
        code.GET_BROKER_CONSUME_STATS: Route(
            progress.of_broker, consumers.BrokerConsumeStatsHeader
        ),
        code.QUERY_CONSUME_TIME_SPAN: Route(progress.time_span, consumers.TimeSpanHeader),
        code.QUERY_CORRECTION_OFFSET: Route(progress.correction, consumers.CorrectionHeader),
        code.GET_ALL_CONSUMER_OFFSET: Route(progress.all_offsets, NoHeader),
        code.GET_ALL_DELAY_OFFSET: Route(progress.all_delay_offsets, NoHeader),
        code.INVOKE_BROKER_TO_RESET_OFFSET: Route(moves.reset, consumers.ResetOffsetHeader),
        code.CLONE_GROUP_OFFSET: Route(moves.clone, consumers.CloneOffsetHeader),
    }


def message_routes(p: Parts, checks: Checks) -> dict[int, Route]:
    """Searches, and replies to requests."""
    room = QueryRoom(checks, p.store, p.filters, p.clients)
    replying = Replying(checks, p.clients, p.intake, p.stats, p.identity, p.clock)
    code = RequestCode
    return {
        code.QUERY_MESSAGE: Route(room.by_key, queries.QueryMessageHeader, "query"),
        code.VIEW_MESSAGE_BY_ID: Route(room.by_place, queries.ViewMessageHeader, "query"),
        code.QUERY_CONSUME_QUEUE: Route(room.queue, queries.QueryConsumeQueueHeader),
        code.SEND_REPLY_MESSAGE: Route(replying.reply, SendHeader, "reply"),
        code.SEND_REPLY_MESSAGE_V2: Route(replying.reply, SendHeaderV2, "reply"),
    }


def runtime_routes(p: Parts, facts: StoreFacts, lanes: Lanes, started_ms: int) -> dict[int, Route]:
    """The broker about itself."""
    room = RuntimeRoom(
        p.settings,
        p.clients,
        p.stats,
        FallBehind(facts, p.offsets, p.clock),
        facts,
        p.page_cache,
        lanes,
        lambda: p.schedule.progress,
        started_ms,
    )
    code = RequestCode
    return {
        code.UPDATE_BROKER_CONFIG: Route(room.update_config, NoHeader),
        code.GET_BROKER_CONFIG: Route(room.config, NoHeader),
        code.GET_BROKER_RUNTIME_INFO: Route(room.info, NoHeader),
        code.VIEW_BROKER_STATS_DATA: Route(room.view_stats, queries.ViewStatsHeader),
    }


def declined_routes() -> dict[int, Route]:
    """What is known, and not to be had."""
    code = RequestCode
    return {
        code.UPDATE_AND_CREATE_ACL_CONFIG: Route(acl.decline, accounts.CreateAccountHeader),
        code.DELETE_ACL_CONFIG: Route(acl.decline, accounts.DeleteAccountHeader),
        code.GET_BROKER_CLUSTER_ACL_INFO: Route(acl.decline, NoHeader),
        code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Route(acl.decline, accounts.WhiteAddressesHeader),
        code.GET_BROKER_CLUSTER_ACL_CONFIG: Route(acl.decline, NoHeader),
        code.REGISTER_FILTER_SERVER: Route(
            filtersrv.decline, filter_servers.RegisterFilterServerHeader
        ),
        code.REGISTER_MESSAGE_FILTER_CLASS: Route(
            filtersrv.decline, filter_servers.RegisterFilterClassHeader
        ),
    }
