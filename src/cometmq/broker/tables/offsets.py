"""Consumer offsets: the next offset of each group, by topic and queue."""

from collections.abc import Callable
from pathlib import Path

from cometmq.broker.tables.table_file import KeptTable
from cometmq.protocol.bodies.tables import ConsumerOffsetTable
from cometmq.seams import Disk

_SEPARATOR = "@"  # no topic or group has it


class ConsumerOffsets:
    """`topic@group` to queue id to offset, kept in consumerOffset.json."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._offsets: dict[str, dict[int, int]] = {}
        self.file = KeptTable(disk, path, lambda: self.body)

    def load(self) -> None:
        kept = self.file.read(ConsumerOffsetTable)
        if kept is not None:
            self._offsets = kept.offset_table

    @property
    def body(self) -> ConsumerOffsetTable:
        """All of it, as a slave and the file want it."""
        return ConsumerOffsetTable(offset_table=self._offsets)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The group wants this one next."""
        key = topic + _SEPARATOR + group
        queues = self._offsets.get(key)
        if queues is None:
            queues = self._offsets[key] = {}
        queues[queue_id] = offset
        self.file.changed()

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """What the group wants next; None if it never said, or said a number below 0."""
        offset = self._offsets.get(topic + _SEPARATOR + group, {}).get(queue_id, -1)
        return offset if offset >= 0 else None

    def of(self, group: str, topic: str) -> dict[int, int]:
        """All queues of a topic."""
        return dict(self._offsets.get(topic + _SEPARATOR + group, {}))

    def topics_of(self, group: str) -> list[str]:
        """Topics that a group has offsets in."""
        return [topic for topic, owner in self._pairs() if owner == group]

    def topics_by_group(self) -> dict[str, list[str]]:
        """The same of all groups, in one pass over the table."""
        found: dict[str, list[str]] = {}
        for topic, owner in self._pairs():
            found.setdefault(owner, []).append(topic)
        return found

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have offsets in a topic."""
        return [owner for name, owner in self._pairs() if name == topic]

    def clone(self, source: str, target: str, topic: str) -> None:
        """Let one group be where another is."""
        offsets = self._offsets.get(topic + _SEPARATOR + source)
        if offsets is not None:
            self._offsets[topic + _SEPARATOR + target] = dict(offsets)
            self.file.changed()

    def forget_group(self, group: str) -> None:
        """The group is no more."""
        self._forget(lambda topic, owner: owner == group)

    def forget_topic(self, topic: str) -> None:
        """The topic is no more."""
        self._forget(lambda name, owner: name == topic)

    def _forget(self, is_gone: Callable[[str, str], bool]) -> None:
        for topic, owner in list(self._pairs()):
            if is_gone(topic, owner):
                del self._offsets[topic + _SEPARATOR + owner]
                self.file.changed()

    def _pairs(self) -> list[tuple[str, str]]:
        pairs = (key.partition(_SEPARATOR) for key in self._offsets)
        return [(topic, group) for topic, _, group in pairs]
