"""Consumer offsets: the next offset of each group, by topic and queue."""

from collections.abc import Callable
from pathlib import Path

from cometmq.broker.tables.table_file import KeptTable
from cometmq.protocol.bodies.tables import ConsumerOffsetTable
from cometmq.seams import Disk

_SEPARATOR = "@"  # no topic or group has it


class ConsumerOffsets:
    """`topic@group` to queue id to offset, persisted in consumerOffset.json."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._offsets: dict[str, dict[int, int]] = {}
        self.file = KeptTable(disk, path, lambda: self.body)

    def load(self) -> None:
        kept = self.file.read(ConsumerOffsetTable)
        if kept is not None:
            self._offsets = kept.offset_table

    @property
    def body(self) -> ConsumerOffsetTable:
        """The whole table, as sent to slaves and written to the file."""
        return ConsumerOffsetTable(offset_table=self._offsets)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store the next offset of a group."""
        key = topic + _SEPARATOR + group
        queues = self._offsets.get(key)
        if queues is None:
            queues = self._offsets[key] = {}
        queues[queue_id] = offset
        self.file.changed()

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """The next offset of a group; None if it is unset or negative."""
        offset = self._offsets.get(topic + _SEPARATOR + group, {}).get(queue_id, -1)
        return offset if offset >= 0 else None

    def of(self, group: str, topic: str) -> dict[int, int]:
        """All queues of a topic."""
        return dict(self._offsets.get(topic + _SEPARATOR + group, {}))

    def topics_of(self, group: str) -> list[str]:
        """Topics that a group has offsets in."""
        return [topic for topic, owner in self._pairs() if owner == group]

    def topics_by_group(self) -> dict[str, list[str]]:
        """The topics of all groups, in one pass over the table."""
        found: dict[str, list[str]] = {}
        for topic, owner in self._pairs():
            found.setdefault(owner, []).append(topic)
        return found

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have offsets in a topic."""
        return [owner for name, owner in self._pairs() if name == topic]

    def clone(self, source: str, target: str, topic: str) -> None:
        """Copy the offsets of one group to another."""
        offsets = self._offsets.get(topic + _SEPARATOR + source)
        if offsets is not None:
            self._offsets[topic + _SEPARATOR + target] = dict(offsets)
            self.file.changed()

    def forget_group(self, group: str) -> None:
        """Remove the offsets of a deleted group."""
        self._forget(lambda topic, owner: owner == group)

    def forget_topic(self, topic: str) -> None:
        """Remove the offsets in a deleted topic."""
        self._forget(lambda name, owner: name == topic)

    def _forget(self, is_gone: Callable[[str, str], bool]) -> None:
        for topic, owner in list(self._pairs()):
            if is_gone(topic, owner):
                del self._offsets[topic + _SEPARATOR + owner]
                self.file.changed()

    def _pairs(self) -> list[tuple[str, str]]:
        pairs = (key.partition(_SEPARATOR) for key in self._offsets)
        return [(topic, group) for topic, _, group in pairs]
