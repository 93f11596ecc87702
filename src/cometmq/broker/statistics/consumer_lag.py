"""Consumer lag of a group in a queue. It is computed on request, so pulls pay nothing for it.

The original notes it at each pull, and writes it to a log of its own.
"""

from dataclasses import dataclass

from cometmq.broker.statistics.store_facts import StoreFacts
from cometmq.broker.tables.offsets import ConsumerOffsets
from cometmq.protocol.bodies.stats import BrokerStats, StatsItem
from cometmq.seams import Clock

_SIZE, _TIME = "GROUP_GET_FALL_SIZE", "GROUP_GET_FALL_TIME"
_SEPARATOR = "@"  # no topic or group has it


@dataclass(frozen=True, slots=True)
class FallBehind:
    """By what the groups have committed."""

    facts: StoreFacts
    offsets: ConsumerOffsets
    clock: Clock

    def view(self, name: str, key: str) -> BrokerStats | None:
        """One of the two statistics, by `queueId@topic@group`; None if it is not to be told."""
        queue_id, _, rest = key.partition(_SEPARATOR)
        topic, _, group = rest.partition(_SEPARATOR)
        if name not in (_SIZE, _TIME) or not queue_id.isdecimal():
            return None
        wanted = self.offsets.get(group, topic, int(queue_id))
        if wanted is None:
            return None
        # What it wants first may be deleted: then it is behind by all that there is.
        wanted = max(wanted, self.facts.store.bounds(topic, int(queue_id))[0])
        behind = self._size if name == _SIZE else self._ms
        value = behind(topic, int(queue_id), wanted)
        # A moment's value has no rate, and is the same for each period.
        item = StatsItem(avgpt=float(value), sum=value)
        return BrokerStats(stats_day=item, stats_hour=item, stats_minute=item)

    def _size(self, topic: str, queue_id: int, wanted: int) -> int:
        """Bytes of the log from the next message of the group on; 0 without lag."""
        units = self.facts.store.units(topic, queue_id, wanted, 1)
        return self.facts.store.log_bounds[1] - units[0].physical_offset if units else 0

    def _ms(self, topic: str, queue_id: int, wanted: int) -> int:
        """The age of the next message of the group in ms; 0 without lag."""
        stored_ms = self.facts.stored_ms(topic, queue_id, wanted)
        return max(self.clock.wall_ms() - stored_ms, 0) if stored_ms >= 0 else 0
