"""The parts of a broker that its handlers use."""

from dataclasses import dataclass

from cometmq.broker.arrivals import Arrivals
from cometmq.broker.delivery.delay_levels import DelayLevels
from cometmq.broker.delivery.retry import Retries
from cometmq.broker.delivery.schedule import Schedule
from cometmq.broker.delivery.transactions import Transactions
from cometmq.broker.filtering.filters import Filters
from cometmq.broker.intake import Intake
from cometmq.broker.notices import Notices
from cometmq.broker.page_cache import PageCache
from cometmq.broker.registration import Registration
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.statistics.store_facts import StoreFacts
from cometmq.broker.tables.clients import Clients
from cometmq.broker.tables.groups import GroupTable
from cometmq.broker.tables.identity import Identity
from cometmq.broker.tables.offsets import ConsumerOffsets
from cometmq.broker.tables.queue_locks import QueueLockTable
from cometmq.broker.tables.topics import TopicTable
from cometmq.remoting.lanes import Lanes
from cometmq.seams import Clock
from cometmq.settings.live_settings import LiveSettings
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
    offsets: ConsumerOffsets
    clients: Clients
    store: MessageStore
    arrivals: Arrivals
    levels: DelayLevels
    intake: Intake
    filters: Filters
    retries: Retries
    schedule: Schedule
    transactions: Transactions
    locks: QueueLockTable
    notices: Notices
    stats: Statistics
    facts: StoreFacts
    lanes: Lanes
    page_cache: PageCache
    started_ms: int
