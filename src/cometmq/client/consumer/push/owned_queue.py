"""One queue that this member owns: its state, its position, and the messages in progress.

    IDLE <--> READY                                 until it is the queue's turn
    IDLE ---> RUNNING ---> IDLE                     orderly: one call at a time
              RUNNING ---> SUSPENDED ---> IDLE      orderly: after a failed call
              RUNNING ---> DRAINING ---> RELEASING
    IDLE, READY, SUSPENDED ------------> RELEASING ---> RELEASED

A queue that is given up while an orderly call runs is DRAINING until the call returns. RELEASING
commits its offset and unlocks it; then another member may own it.
"""

import asyncio
from dataclasses import dataclass
from enum import Enum

from cometmq.client.consumer.push.process_queue import ProcessQueue
from cometmq.client.consumer.shared.flow_limits import FlowLimits
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.seams import Timer


class OwnedState(Enum):
    """See the top of the file."""

    IDLE = "no message waits for a worker"
    READY = "messages wait, and the queue is in the line for a worker"
    RUNNING = "an orderly listener call has messages of it"
    SUSPENDED = "an orderly call failed: the queue waits before the next attempt"
    DRAINING = "given up, but an orderly listener call still has messages of it"
    RELEASING = "given up: its offset is committed, and its lock is released"
    RELEASED = "not ours any more"


_S = OwnedState
_LEGAL = {
    _S.IDLE: {_S.READY, _S.RUNNING, _S.RELEASING},
    _S.READY: {_S.IDLE, _S.RELEASING},
    _S.RUNNING: {_S.IDLE, _S.SUSPENDED, _S.DRAINING},
    _S.SUSPENDED: {_S.IDLE, _S.RELEASING},
    _S.DRAINING: {_S.RELEASING},
    _S.RELEASING: {_S.RELEASED},
    _S.RELEASED: set(),
}
_GIVEN_UP = frozenset({_S.DRAINING, _S.RELEASING, _S.RELEASED})


@dataclass(frozen=True, slots=True)
class LockTime:
    """When the broker last confirmed our lock."""

    monotonic_ms: int
    wall_ms: int


class OwnedQueue:
    """See the top of the file. It belongs to the loop."""

    __slots__ = (
        "_room",
        "_state",
        "consumed_ms",
        "limits",
        "lock",
        "next_offset",
        "process",
        "pulled_ms",
        "puller",
        "queue",
        "resume_timer",
    )

    def __init__(self, queue: MessageQueue, next_offset: int, limits: FlowLimits) -> None:
        self.queue = queue
        self.next_offset = next_offset  # to pull
        self.limits = limits
        self.process = ProcessQueue()
        self.puller: asyncio.Task[None] | None = None
        self.lock: LockTime | None = None  # None: not locked, or needs no lock
        self.resume_timer: Timer | None = None  # set exactly while SUSPENDED
        self.pulled_ms = 0  # wall time of the last pull
        self.consumed_ms = 0  # wall time of the last listener call
        self._state = OwnedState.IDLE
        self._room = asyncio.Event()

    @property
    def state(self) -> OwnedState:
        """Changed by `become` only."""
        return self._state

    @property
    def is_given_up(self) -> bool:
        """True when no new listener call may begin."""
        return self._state in _GIVEN_UP

    @property
    def is_running(self) -> bool:
        """True while an orderly listener call has messages of it."""
        return self._state in (OwnedState.RUNNING, OwnedState.DRAINING)

    def become(self, state: OwnedState) -> None:
        """Change the state; asserts that the transition is legal."""
        assert state in _LEGAL[self._state], f"{self.queue}: {self._state.name} to {state.name}"
        if self.resume_timer is not None:
            assert self._state is OwnedState.SUSPENDED, "a timer runs only while suspended"
            self.resume_timer.cancel()
            self.resume_timer = None
        self._state = state

    def restart(self, offset: int) -> None:
        """Discard what was pulled, and pull from `offset`. Results of running calls are ignored."""
        self.process.drop()
        self.process = ProcessQueue()
        self.next_offset = offset
        if self._state is OwnedState.SUSPENDED:
            self.become(OwnedState.IDLE)
        self.made_room()

    def give_up(self) -> None:
        """Stop pulling, and begin no new listener call."""
        self.become(
            OwnedState.DRAINING if self._state is OwnedState.RUNNING else OwnedState.RELEASING
        )
        self.stop_pulling()

    def release(self) -> None:
        """Discard what is left: another member may own the queue."""
        self.become(OwnedState.RELEASED)
        self.process.drop()

    def stop_pulling(self) -> None:
        """Cancel the pull loop, if one runs."""
        if self.puller is not None:
            self.puller.cancel()
            self.puller = None

    def made_room(self) -> None:
        """Wake the pull loop: messages were finished, or limits changed."""
        self._room.set()

    async def wait_for_room(self) -> None:
        """Return when the queue is below its flow limits."""
        while self.process.hold(self.limits) is not None:
            self._room.clear()
            await self._room.wait()
