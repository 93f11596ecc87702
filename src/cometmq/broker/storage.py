"""The message store of a broker, and what stands in front of it."""

from dataclasses import dataclass

from cometmq.broker.arrivals import Arrivals
from cometmq.broker.intake import Intake
from cometmq.broker.page_cache import PageCache
from cometmq.broker.statistics.store_facts import StoreFacts
from cometmq.store.message_store import MessageStore


@dataclass(frozen=True, slots=True)
class Storage:
    """Reads go to `store`, writes to `intake`; pulls wait in `arrivals`."""

    store: MessageStore
    intake: Intake
    arrivals: Arrivals
    facts: StoreFacts
    page_cache: PageCache
