"""The parts of a broker that its handlers use."""

from dataclasses import dataclass

from cometmq.broker.arrivals import Arrivals
from cometmq.broker.clients import Clients
from cometmq.broker.delay_levels import DelayLevels
from cometmq.broker.filters import Filters
from cometmq.broker.groups import GroupTable
from cometmq.broker.identity import Identity
from cometmq.broker.intake import Intake
from cometmq.broker.notices import Notices
from cometmq.broker.offsets import OffsetTable
from cometmq.broker.page_cache import PageCache
from cometmq.broker.queue_locks import QueueLocks
from cometmq.broker.registration import Registration
from cometmq.broker.retry import Retries
from cometmq.broker.schedule import Schedule
from cometmq.broker.stats import BrokerStats
from cometmq.broker.store_facts import StoreFacts
from cometmq.broker.topics import TopicTable
from cometmq.broker.transactions import Transactions
from cometmq.live_settings import LiveSettings
from cometmq.remoting.lanes import Lanes
from cometmq.seams import Clock
from cometmq.store.message_store import MessageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Built by `broker.py`, once the store is open."""

    identity: Identity
    settings: LiveSettings
    clock: Clock
    topics: TopicTable
    registration: Registration
    groups: GroupTable
    offsets: OffsetTable
    clients: Clients
    store: MessageStore
    arrivals: Arrivals
    levels: DelayLevels
    intake: Intake
    filters: Filters
    retries: Retries
    schedule: Schedule
    transactions: Transactions
    locks: QueueLocks
    notices: Notices
    stats: BrokerStats
    facts: StoreFacts
    lanes: Lanes
    page_cache: PageCache
    started_ms: int
