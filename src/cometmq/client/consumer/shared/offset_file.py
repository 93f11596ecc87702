"""Offsets of a broadcasting consumer in a local file, `offsets.json`, where Java stores it.

    <folder>/<client id>/<group>/offsets.json      and its previous content in offsets.json.bak

The default folder is ~/.rocketmq_offsets. A Java client of the same id and group continues where
ours ended, and vice versa: the file is JSON whose keys are queues, as objects.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

from cometmq.client.consumer.shared.offset_table import OffsetTable
from cometmq.errors import BadSetting, BadState, Malformed
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.java.fastjson import Body, dumps, loads
from cometmq.protocol.limits import Int64
from cometmq.protocol.names import check_group
from cometmq.seams import Disk

log = logging.getLogger(__name__)

FOLDER = ".rocketmq_offsets"  # in the user's home
FILE = "offsets.json"


class _Offsets(Body):
    offset_table: dict[MessageQueue, Int64] = {}


def offsets_path(folder: Path, client_id: str, group: str) -> Path:
    """The path of the file of a client and group."""
    if not client_id or client_id in (".", "..") or any(sign in client_id for sign in "/\\\0"):
        raise BadSetting(f"client id {client_id!r} is no folder name: choose another instance")
    return folder / client_id / check_group(group) / FILE


class OffsetFile:
    """What is to be consumed next, by queue; on disk what it was at the last `save`.

    `load` and `save` block: off the loop, by `Disk.begin`.
    """

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._backup = path.with_name(path.name + ".bak")
        self._offsets = OffsetTable()
        self._saved: dict[MessageQueue, int] = {}
        self._content = b""  # of the file, if it is good

    def load(self) -> None:
        """Read the file, or its .bak if it is damaged. Raises BadState if both are damaged."""
        damage = None
        for path in (self._path, self._backup):
            try:
                content = self._disk.read(path)
                if content.strip():  # an empty one counts as none, as there
                    self._saved = loads(content, _Offsets).offset_table
                    self._offsets = OffsetTable(self._saved)
                    self._content = content if path == self._path else b""
                    return
            except FileNotFoundError:
                continue
            except Malformed as error:
                damage = error
                log.error("%s is damaged: %s", path, error)
        if damage is not None:
            raise BadState(
                f"{self._path} and its .bak are damaged: {damage};"
                " repair one of them, or delete both to begin anew"
            )

    def get(self, queue: MessageQueue) -> int | None:
        """The offset to consume next; None if it is unknown."""
        return self._offsets.get(queue)

    def advance(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """Set the offset; with `only_up`, only if it is higher."""
        self._offsets.advance(queue, offset, only_up=only_up)

    def save(self, queues: Iterable[MessageQueue]) -> None:
        """Have the offsets of these on disk; those of others stay there as they are.

        4.9's client forgets the others, so that a topic subscribed to again is read from where a
        new group begins.
        """
        known = {queue: self._offsets[queue] for queue in queues if queue in self._offsets}
        table = self._saved | known
        if table == self._saved:
            return
        content = dumps(_Offsets(offset_table=table))
        if self._content:
            self._disk.replace(self._backup, self._content)
        self._disk.replace(self._path, content)
        self._saved, self._content = table, content
