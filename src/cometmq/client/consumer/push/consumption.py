"""What both ways of consumption have, side by side and in order."""

from abc import ABC, abstractmethod
from collections import deque

from cometmq.client.consumer.push.listener import ListenerCall
from cometmq.client.consumer.push.owned_queue import OwnedQueue
from cometmq.client.consumer.push.workplace import Workplace


class Consumption(ABC):
    """Queues with messages that wait, standing in line for the workers. It belongs to the loop."""

    def __init__(self, at: Workplace) -> None:
        self._listener = at.listener
        self._workers = at.make_workers(self._finished)
        self._send_back = at.send_back
        self._offsets = at.offsets
        self._clock = at.clock
        self._background = at.background
        self._stats = at.stats
        self._hooks = at.hooks
        self._line: deque[OwnedQueue] = deque()
        self._is_draining = False

    @abstractmethod
    def deliver(self, held: OwnedQueue) -> None:
        """Messages wait in this queue, or what kept them from running has ended."""

    @abstractmethod
    async def wait_until_still(self, held: OwnedQueue) -> None:
        """Return when a queue that is given up may be another's."""

    async def drain(self, *, begun_only: bool) -> None:
        """Return when all that was pulled is done, or only what a listener has by now."""
        if begun_only:
            self._is_draining = True
            self._line.clear()
        await self._workers.wait_until_idle()

    def close(self) -> None:
        """Run nothing more."""
        self._is_draining = True
        self._workers.close()

    @abstractmethod
    def _finished(self, calls: list[ListenerCall]) -> None: ...
