"""The table: every code that a broker answers, with its handler, header, lane and ports."""

import logging
from dataclasses import replace
from functools import partial

from cometmq.broker.config import BrokerConfig
from cometmq.broker.delivery.offset_moved import OffsetMovedEvents
from cometmq.broker.durable_replies import SafeAnswers
from cometmq.broker.filtering.filtered_reads import FilteredReads
from cometmq.broker.handlers import policy
from cometmq.broker.handlers.admin_routes import (
    consumer_routes,
    declined_routes,
    message_routes,
    runtime_routes,
    topic_routes,
)
from cometmq.broker.handlers.checks import Checks
from cometmq.broker.handlers.client import ClientHandlers
from cometmq.broker.handlers.lock import LockHandlers
from cometmq.broker.handlers.offset import OffsetHandlers
from cometmq.broker.handlers.pull import PullHandlers
from cometmq.broker.handlers.send import SendHandlers
from cometmq.broker.handlers.send_back import SendBackHandlers
from cometmq.broker.handlers.transaction import TransactionHandlers
from cometmq.broker.parts import Parts
from cometmq.broker.sends.admission import SendAdmission
from cometmq.broker.sends.replies import SendReplies
from cometmq.broker.stored_properties import StoredProperties
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers import offset as offset_headers
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.headers.client import ConsumerGroupHeader, UnregisterClientHeader
from cometmq.protocol.headers.pull import PullHeader
from cometmq.protocol.headers.send import SendBackHeader, SendHeader, SendHeaderV2
from cometmq.protocol.headers.transaction import EndTransactionHeader, ResumeCheckHeader
from cometmq.protocol.records.message_id import offset_id_format
from cometmq.refusal_log import RefusalLog
from cometmq.remoting.access import ADMIN, CONSUME, OF_GROUP, OF_TOPIC, PUBLISH, AccessRule, Action
from cometmq.remoting.dispatch import Route, Routes
from cometmq.remoting.lanes import LaneLimit
from cometmq.settings.settings import as_texts

log = logging.getLogger(__name__)

_LANES = {  # by lane, the setting (with Apache's name) that limits it
    "send": "sendThreadPoolQueueCapacity",
    "pull": "pullThreadPoolQueueCapacity",
    "reply": "replyThreadPoolQueueCapacity",
    "query": "queryThreadPoolQueueCapacity",
    "client": "clientManagerThreadPoolQueueCapacity",
    "consumer": "consumerManagerThreadPoolQueueCapacity",
    "heartbeat": "heartbeatThreadPoolQueueCapacity",
    "transaction": "endTransactionPoolQueueCapacity",
}


def lane_limits(config: BrokerConfig) -> dict[str, LaneLimit]:
    """How many requests of each lane may wait."""
    texts = as_texts(config)
    return {lane: LaneLimit(int(texts[name]), name) for lane, name in _LANES.items()}


def build_routes(p: Parts) -> Routes:
    """Every request this broker answers."""
    checks = Checks(p.tables.topics, p.tables.groups, p.context.settings, p.context.identity)
    return {
        **_sends(p, checks),
        **_pulls(p, checks),
        **_clients(p),
        **_offsets(p, checks),
        **topic_routes(p, checks),
        **consumer_routes(p, checks),
        **message_routes(p, checks),
        **runtime_routes(p),
        **declined_routes(),
    }


def _sends(p: Parts, checks: Checks) -> dict[int, Route]:
    answers = SafeAnswers(p.tables.topics, p.storage.intake)
    context = p.context
    identity = context.identity
    refusals = RefusalLog(log, context.clock, "sends")
    admission = SendAdmission(context.settings, context.clock, p.storage.page_cache, refusals)
    replies = SendReplies(answers, p.stats, admission, offset_id_format(identity.host))
    sending = SendHandlers(
        checks,
        p.storage.intake,
        p.delivery.retries,
        p.stats,
        StoredProperties(identity.cluster),
        admission,
        replies,
    )
    send = partial(
        Route,
        sending.send,
        access=PUBLISH,
        lane="send",
        writes=True,
        on_slave=policy.SLAVE_NO_SEND,
        jointly=sending.send_jointly,
    )
    back = SendBackHandlers(checks, p.delivery.retries, p.storage.intake, answers, p.stats)
    ends = TransactionHandlers(p.delivery.transactions, answers)
    code = RequestCode
    return {
        code.CONSUMER_SEND_MSG_BACK: Route(
            back.send_back,
            SendBackHeader,
            AccessRule(group=Action.SUB, late=Action.SUB),
            "send",
            writes=True,
            on_slave=policy.SLAVE_NO_SEND_BACK,
        ),
        code.END_TRANSACTION: Route(
            ends.end,
            EndTransactionHeader,
            AccessRule(late=Action.PUB),
            "transaction",
            writes=True,
            on_slave=policy.SLAVE_NO_TRANSACTION,
        ),
        code.RESUME_CHECK_HALF_MESSAGE: Route(ends.resume, ResumeCheckHeader, ADMIN, writes=True),
        code.SEND_MESSAGE: send(SendHeader),
        code.SEND_MESSAGE_V2: send(SendHeaderV2),
        code.SEND_BATCH_MESSAGE: replace(send(SendHeaderV2), jointly=None),
    }


def _pulls(p: Parts, checks: Checks) -> dict[int, Route]:
    pulling = PullHandlers(
        checks, FilteredReads(p.storage.store), p.filters, p.tables.offsets, p.storage.arrivals,
        OffsetMovedEvents(p.storage.intake, p.context.identity), p.stats, p.context.settings,
    )  # fmt: skip
    pull = Route(pulling.pull, PullHeader, CONSUME, "pull", writes=True, vip_port=False)
    return {RequestCode.PULL_MESSAGE: pull}


def _clients(p: Parts) -> dict[int, Route]:
    clients = ClientHandlers(p.tables, p.filters, p.notices, p.context.clock)
    locks = LockHandlers(p.tables.topics, p.tables.locks, p.context.clock)
    code = RequestCode
    return {
        code.HEART_BEAT: Route(
            clients.heartbeat, NoHeader, policy.HEARTBEAT, "heartbeat", writes=True
        ),
        code.UNREGISTER_CLIENT: Route(
            clients.unregister, UnregisterClientHeader, OF_GROUP, "client", writes=True
        ),
        code.CHECK_CLIENT_CONFIG: Route(
            clients.check_config, NoHeader, policy.SUBSCRIPTION, "client"
        ),
        code.GET_CONSUMER_LIST_BY_GROUP: Route(
            clients.members, ConsumerGroupHeader, OF_GROUP, "consumer"
        ),
        code.LOCK_BATCH_MQ: Route(locks.lock, NoHeader, policy.QUEUES, writes=True),
        code.UNLOCK_BATCH_MQ: Route(locks.unlock, NoHeader, policy.QUEUES, writes=True),
    }


def _offsets(p: Parts, checks: Checks) -> dict[int, Route]:
    offsets = OffsetHandlers(checks, p.tables.offsets, p.storage.store)
    headers, code = offset_headers, RequestCode
    return {
        code.QUERY_CONSUMER_OFFSET: Route(
            offsets.query, headers.QueryOffsetHeader, CONSUME, "consumer"
        ),
        code.UPDATE_CONSUMER_OFFSET: Route(
            offsets.update, headers.UpdateOffsetHeader, CONSUME, "consumer", writes=True
        ),
        code.SEARCH_OFFSET_BY_TIMESTAMP: Route(
            offsets.by_time, headers.SearchOffsetHeader, OF_TOPIC
        ),
        code.GET_MAX_OFFSET: Route(offsets.end, headers.QueueHeader, OF_TOPIC),
        code.GET_MIN_OFFSET: Route(offsets.first, headers.QueueHeader, OF_TOPIC),
        code.GET_EARLIEST_MSG_STORETIME: Route(offsets.earliest, headers.QueueHeader, OF_TOPIC),
    }
