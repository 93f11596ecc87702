"""Memory for large begun frames, which returns to the system when its connection is lost.

The heap does not shrink after many slow peers left: one live object above the freed memory prevents
it. Pages of an anonymous map are allocated when they are written to, and freed with the map. The
first write to a page costs more than all copies of it (5 ms for 4 MiB, in place of 1.3 ms), so a
few maps stay for the next frames of peers that are not slow.
"""

import mmap

_SIZE_STEP = 256 << 10
_SPARES_MAX = 4
_SPARE_SIZE_MAX = 5 << 20  # a message of maxMessageSize; all spares together hold 20 MiB at most


class FrameMemory:
    """Shared by the connections of one side."""

    def __init__(self) -> None:
        self._spares: list[memoryview] = []

    def take(self, size: int) -> memoryview:
        """Writable memory of at least this size; without a reference to it, it is gone."""
        for number, spare in enumerate(self._spares):
            if size <= len(spare):
                return self._spares.pop(number)
        size += -size % _SIZE_STEP
        try:
            return memoryview(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        except OSError:  # no more maps, or no overcommitted memory: the heap may still have some
            return memoryview(bytearray(size))

    def give_back(self, memory: memoryview) -> None:
        """Keep it for the next frame, if it is not too large; of several the larger ones."""
        if len(memory) <= _SPARE_SIZE_MAX:
            self._spares.append(memory)
            self._spares.sort(key=len)
            del self._spares[:-_SPARES_MAX]
