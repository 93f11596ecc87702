"""The parts of a broker that its handlers use. `broker.py` builds them once the store is open."""

from dataclasses import dataclass

from cometmq.broker.delivery.delivery import Delivery
from cometmq.broker.filtering.filters import Filters
from cometmq.broker.notices import Notices
from cometmq.broker.registration import Registration
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.storage import Storage
from cometmq.broker.tables.identity import Identity
from cometmq.broker.tables.tables import Tables
from cometmq.remoting.lanes import Lanes
from cometmq.seams import Clock
from cometmq.settings.live_settings import LiveSettings


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """Who the broker is, its settings, its time, and the limits of its lanes."""

    identity: Identity
    settings: LiveSettings
    clock: Clock
    lanes: Lanes
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Every part, by concept."""

    context: BrokerContext
    tables: Tables
    storage: Storage
    delivery: Delivery
    filters: Filters
    stats: Statistics
    registration: Registration
    notices: Notices
