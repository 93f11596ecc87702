"""Records that this process did not write are verified before they are first served.

What was written or walked since the store was opened is after the log's `trusted_from`, and costs a
read one comparison. The rest is verified when it is read, record by record, and remembered by one
bit for each 64 bytes of a file: no two records begin in the same.
"""

import logging

from cometmq.protocol.message import RECORD_SIZE_MIN
from cometmq.store.commit_log import CommitLog, LogFile
from cometmq.store.walk import is_good

log = logging.getLogger(__name__)

_STEP = 64
assert _STEP <= RECORD_SIZE_MIN
_FILES_MAX = 64  # that are remembered: 128 MiB of bits for files of 1 GiB
_TOLD_MAX = 10_000


class Vetting:
    """Knows which old records are good. `damaged` counts those found that are not."""

    def __init__(self, commit_log: CommitLog) -> None:
        self._log = commit_log
        self._good: dict[int, bytearray] = {}  # bits of a file, by its base
        self._told: set[int] = set()  # where damage was reported
        self.damaged = 0

    def is_good(self, physical_offset: int, size: int) -> bool:
        """May this record be served? Verified once, if this process did not write it."""
        file = self._log.file_at(physical_offset)
        # What is not in the log is the reader's to tell.
        if file is None or physical_offset >= self._log.trusted_from:
            return True
        place, bit = divmod((physical_offset - file.base) // _STEP, 8)
        bits = self._bits_of(file)
        if not bits[place] >> bit & 1:
            if not is_good(file, physical_offset - file.base, size):
                self._tell(physical_offset, size)
                return False
            bits[place] |= 1 << bit
        return True

    def _bits_of(self, file: LogFile) -> bytearray:
        bits = self._good.get(file.base)
        if bits is None:
            if len(self._good) >= _FILES_MAX:
                self._good.pop(next(iter(self._good)))
            bits = self._good[file.base] = bytearray(file.size // _STEP // 8 + 1)
        return bits

    def _tell(self, physical_offset: int, size: int) -> None:
        if physical_offset not in self._told and len(self._told) < _TOLD_MAX:
            self._told.add(physical_offset)
            self.damaged += 1
            log.error("%d bytes of the log at %d are bad, and not served", size, physical_offset)
