"""What concurrent and orderly consumption share: the line of queues that wait for a worker."""

import logging
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass

from cometmq.background import Background
from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.hooks import Hooks
from cometmq.client.consumer.push.listener import Listener, ListenerCall
from cometmq.client.consumer.push.owned_queue import OwnedQueue, OwnedState
from cometmq.client.consumer.push.workers import HandlerWorkers
from cometmq.client.consumer.shared.offsets import Offsets
from cometmq.client.consumer.shared.outcomes import Outcome
from cometmq.client.consumer.shared.send_back import SendBack
from cometmq.client.consumer.shared.stats import ConsumerStats
from cometmq.client.message import ReceivedMessage
from cometmq.seams import Clock

log = logging.getLogger(__name__)


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

    Invariant, until `drain`: a queue is in `_line`, once, exactly while its state is READY, or if
    it was given up while it was there; then it is skipped when its turn comes.
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
        self._workers = HandlerWorkers(parts.listener, parts.config, parts.clock, self._finished)
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

    def _take(self, owned: OwnedQueue) -> ListenerCall | None:
        """The next messages of a queue for one function; None if no message waits.

        A batch ends before the first message for another function.
        """
        process, listener = owned.process, self._listener
        handlers = listener.handlers
        handler = handlers.only
        if handler is not None:
            messages = process.take(listener.batch_max)
        else:
            messages = process.take(1)
            if messages:
                handler = handlers.of(messages[0])
                messages += process.take(
                    listener.batch_max - 1, lambda message: handlers.of(message) is handler
                )
        if not messages:
            return None
        call = ListenerCall(owned, process, messages, handler)
        if handler is not None:
            self._hooks.before(call)
        return call

    def _outcome(self, call: ListenerCall) -> Outcome:
        """The outcome of a call; failures are logged, and hooks are called."""
        orderly = self.is_orderly
        outcome = call.outcome(orderly=orderly)
        handler = call.handler
        if handler is None:
            return outcome
        if call.error is not None or call.is_mistake(orderly=orderly):
            message = call.messages[0]
            what = "failed" if call.error is not None else f"returned {call.returned!r}"
            log.warning(
                "%s of group %s %s for %s, attempt %d: %s",
                handler.name,
                self._config.group,
                what,
                message,
                call.attempt,
                self._redelivery(message),
                exc_info=call.error,
            )
        self._hooks.after(call, outcome)
        return outcome

    @abstractmethod
    def _redelivery(self, message: ReceivedMessage) -> str:
        """What happens to a message that failed, for the log."""

    @abstractmethod
    def _fill(self) -> None:
        """Give work to free workers."""

    @abstractmethod
    def _finished(self, calls: list[ListenerCall]) -> None: ...
