"""What concurrent and orderly consumption share: the line of queues that wait for a worker."""

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass

from cometmq.background import Background
from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.hooks import Hooks
from cometmq.client.consumer.push.listener import Listener, ListenerCall
from cometmq.client.consumer.push.owned_queue import OwnedQueue, OwnedState
from cometmq.client.consumer.push.workers import workers_for
from cometmq.client.consumer.shared.offsets import Offsets
from cometmq.client.consumer.shared.send_back import SendBack
from cometmq.client.consumer.shared.stats import ConsumerStats
from cometmq.seams import Clock


@dataclass(frozen=True, slots=True)
class ConsumptionParts:
    """The collaborators of a consumption."""

    config: PushConsumerConfig
    listener: Listener
    send_back: SendBack | None  # None: a broadcasting consumer skips messages that fail
    offsets: Offsets
    clock: Clock
    background: Background
    stats: ConsumerStats
    hooks: Hooks


class Consumption(ABC):
    """Hands messages of queues to the listener. It belongs to the loop.

    Invariant: a queue is in `_line`, once, exactly while its state is READY; or it was given up
    while it was there, and is skipped when its turn comes.
    """

    def __init__(self, parts: ConsumptionParts) -> None:
        self._config = parts.config
        self._listener = parts.listener
        self._send_back = parts.send_back
        self._offsets = parts.offsets
        self._clock = parts.clock
        self._background = parts.background
        self._stats = parts.stats
        self._hooks = parts.hooks
        self._workers = workers_for(parts.listener, parts.config, parts.clock, self._finished)
        self._line: deque[OwnedQueue] = deque()
        self._is_draining = False

    @property
    def is_orderly(self) -> bool:
        """True if messages of a queue are consumed in order."""
        return self._listener.is_orderly

    def deliver(self, owned: OwnedQueue) -> None:
        """Run the listener for messages of this queue as soon as a worker is free.

        Call it when messages arrived, or when what kept the queue from running has ended.
        """
        if owned.state is OwnedState.IDLE and owned.process.waiting and not self._is_draining:
            owned.become(OwnedState.READY)
            self._line.append(owned)
        self._fill()

    @abstractmethod
    async def wait_until_still(self, owned: OwnedQueue) -> None:
        """Return when a queue that was given up may be released."""

    async def drain(self, *, begun_only: bool) -> None:
        """Return when all pulled messages are consumed, or only those that a listener has now."""
        if begun_only:
            self._is_draining = True
            self._line.clear()
        await self._workers.wait_until_idle()

    def close(self) -> None:
        """Start no more listener calls."""
        self._is_draining = True
        self._workers.close()

    def _next_in_line(self) -> OwnedQueue | None:
        """The next queue whose turn it is; its state is IDLE now. None if no queue waits."""
        while self._line:
            owned = self._line.popleft()
            if not owned.is_given_up:
                owned.become(OwnedState.IDLE)
                return owned
        return None

    @abstractmethod
    def _fill(self) -> None:
        """Give work to free workers."""

    @abstractmethod
    def _finished(self, calls: list[ListenerCall]) -> None: ...
