"""A consume queue whose units have an extension, for filters that look at more than a tag.

Such a queue is made in place of a plain one when the store is opened: with `enableConsumeQueueExt`,
or if there are extensions already. A message's code then comes with the time it was stored and with
bits, and is kept with them in the extension; the queue's unit has the address.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from cometmq.seams import Disk
from cometmq.store.config import StoreConfig
from cometmq.store.files import StoreFiles
from cometmq.store.queue.consume_queue import UNIT, ConsumeQueue, Judge
from cometmq.store.queue.file_runs import Write
from cometmq.store.queue.queue_extension import QueueExtension, extension_of, is_address
from cometmq.store.recovery.manifest import Bounds


class ExtendedCode(int):
    """A tag code, and what the extension says of its message."""

    stored_ms: int
    bits: bytes

    def __new__(cls, code: int, stored_ms: int, bits: bytes) -> "ExtendedCode":
        """A number that is used as the code alone, where nothing more is asked."""
        self = super().__new__(cls, code)
        self.stored_ms = stored_ms
        self.bits = bits
        return self


class ExtendedQueue(ConsumeQueue):
    """Its extension is always written before itself: no address leads nowhere."""

    __slots__ = ("_extension", "_writing_to")

    def __init__(self, folder: Path, file_size: int, disk: Disk, extension_size: int) -> None:
        super().__init__(folder, file_size, disk)
        place = extension_of(folder.parent) / folder.name
        self._extension = QueueExtension(place, extension_size, disk)
        self._writing_to = 0  # the end of the extension when `unwritten` was last asked for

    # Writing

    def append(self, physical_offset: int, size: int, tag_code: int) -> None:
        """The unit of queue offset `end`; one without bits may have none in the extension."""
        if isinstance(tag_code, ExtendedCode):
            tag_code = self._extension.append(int(tag_code), tag_code.stored_ms, tag_code.bits)
        super().append(physical_offset, size, tag_code)

    def append_all(
        self, physical_offsets: Sequence[int], sizes: Sequence[int], tag_codes: Sequence[int]
    ) -> None:
        """As `append` of each."""
        for unit in zip(physical_offsets, sizes, tag_codes, strict=True):
            self.append(*unit)

    def unwritten(self) -> list[Write]:
        """First what is to be written of the extension."""
        self._writing_to = self._extension.end
        return self._extension.unwritten() + super().unwritten()

    def written(self, end: int) -> None:
        """All that was told last."""
        self._extension.written(self._writing_to)
        super().written(end)

    @property
    def kept_size(self) -> int:
        """With that of the extension."""
        return super().kept_size + self._extension.kept_size

    def release(self) -> None:
        """In the extension too."""
        super().release()
        self._extension.release()

    # Reading

    def coded(self, units: bytes) -> Iterator[tuple[int, int, int]]:
        """Packed units one by one, with their codes where there was an address.

        An address that leads nowhere stays: what the message is like is not known.
        """
        for physical_offset, size, code in UNIT.iter_unpack(units):
            found = self._extension.get(code) if is_address(code) else None
            yield physical_offset, size, code if found is None else ExtendedCode(*found)

    # Starting, cutting, forgetting

    def load(
        self, judge: Judge, bases: list[int] | None = None, listed: Bounds | None = None
    ) -> None:
        """The extension goes on after the last unit that the queue has."""
        super().load(judge, bases, listed)
        self._extension.load(self._last_address())

    def cut_from(self, physical_offset: int) -> None:
        """After a crash the extension may have units that the queue has not, too."""
        super().cut_from(physical_offset)
        last_address = self._last_address()
        if last_address is not None:
            self._extension.cut(last_address)

    def files_before_first(self) -> list[Path]:
        """Those of the extension too."""
        oldest = self.unit(self.first)
        if oldest is None or not is_address(oldest[2]):
            return super().files_before_first()
        return super().files_before_first() + self._extension.forget_before(oldest[2])

    def _last_address(self) -> int | None:
        """Of its last unit; None if that has none."""
        last = self.unit(self.end - 1)
        return last[2] if last is not None and is_address(last[2]) else None


def queue_maker(
    config: StoreConfig, files: StoreFiles, disk: Disk
) -> Callable[[Path, int, Disk], ConsumeQueue]:
    """What the queues of a store are: plain, as nearly always, or with extensions."""
    if not config.enable_consume_queue_ext and not disk.names(files.extensions):
        return ConsumeQueue
    return partial(ExtendedQueue, extension_size=config.mapped_file_size_consume_queue_ext)
