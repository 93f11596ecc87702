"""Verifies units and records that this process did not write before they are first served.

Units from a queue's `trusted_from` on, and records from the log's `trusted_from` on, were written
or walked since the store was opened. The rest is verified when it is read, unit and record
together, and remembered by one bit for each unit.
"""

import logging

from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.results import UnitVerdict
from cometmq.store.queue.unit_check import judge_unit

log = logging.getLogger(__name__)

_CHUNK = 4096  # units whose bits are remembered together
_CHUNKS_MAX = 1 << 16  # 32 MiB of bits
_TOLD_MAX = 10_000
_GOOD = UnitVerdict.GOOD


class Vetting:
    """Remembers which old units and records are good. `damaged` counts bad records."""

    def __init__(self, commit_log: CommitLog) -> None:
        self._log = commit_log
        self._good: dict[tuple[ConsumeQueue, int], bytearray] = {}  # bits, by queue and chunk
        self._told: set[int] = set()  # offsets of reported damage
        self.damaged = 0

    def verdict(
        self, queue: ConsumeQueue, queue_offset: int, physical_offset: int, size: int
    ) -> UnitVerdict:
        """Compare a unit with its record, once. Only the record of a GOOD unit may be served."""
        if queue_offset >= queue.trusted_from and physical_offset >= self._log.trusted_from:
            return _GOOD
        chunk, place = divmod(queue_offset, _CHUNK)
        bits = self._good.get((queue, chunk))
        if bits is not None and bits[place >> 3] >> (place & 7) & 1:
            return _GOOD
        found = judge_unit(self._log, queue.key, queue_offset, physical_offset, size)
        if found is _GOOD:
            self.vouch_for(queue, queue_offset)
        elif found is UnitVerdict.DAMAGED:
            self.report(physical_offset, size)
        return found

    def vouch_for(self, queue: ConsumeQueue, queue_offset: int) -> None:
        """Remember that a unit is right and its record good."""
        chunk, place = divmod(queue_offset, _CHUNK)
        bits = self._good.get((queue, chunk))
        if bits is None:
            if len(self._good) >= _CHUNKS_MAX:
                self._good.pop(next(iter(self._good)))
            bits = self._good[queue, chunk] = bytearray(_CHUNK // 8)
        bits[place >> 3] |= 1 << (place & 7)

    def report(self, physical_offset: int, size: int) -> None:
        """Log and count a damaged part of the log, once."""
        if physical_offset not in self._told and len(self._told) < _TOLD_MAX:
            self._told.add(physical_offset)
            self.damaged += 1
            log.error("%d bytes of the log at %d are bad, and not served", size, physical_offset)
