"""One queue that is this member's for now: where it is read, and what was read and is not done."""

import asyncio

from cometmq.client.consumer.push.flow_limits import FlowLimits
from cometmq.client.consumer.push.process_queue import ProcessQueue
from cometmq.protocol.bodies.queues import MessageQueue


class OwnedQueue:
    """A row of the table of queues; its parts are changed by those who pull and consume."""

    __slots__ = (
        "_room",
        "consumed_ms",
        "is_in_line",
        "is_leaving",
        "is_running",
        "limits",
        "locked_ms",
        "locked_wall_ms",
        "next_offset",
        "process",
        "pulled_ms",
        "puller",
        "queue",
        "suspended_until_ms",
    )

    def __init__(self, queue: MessageQueue, next_offset: int, limits: FlowLimits) -> None:
        self.queue = queue
        self.next_offset = next_offset  # to pull
        self.limits = limits
        self.process = ProcessQueue()
        self.puller: asyncio.Task[None] | None = None
        self.is_in_line = False  # for a listener
        self.is_leaving = False  # no new calls: another member gets it
        self.is_running = False  # a listener of orderly messages has some of it
        self.suspended_until_ms = 0  # monotonic; of an orderly queue
        self.locked_ms: int | None = None  # monotonic: when the broker last said that it is ours
        self.locked_wall_ms = 0  # the same, for people
        self.pulled_ms = 0  # wall
        self.consumed_ms = 0  # wall
        self._room = asyncio.Event()

    def begin_anew(self, offset: int) -> None:
        """Forget what was read; read from here. Calls that are out will change nothing any more."""
        self.process.drop()
        self.process = ProcessQueue()
        self.next_offset = offset
        self.suspended_until_ms = 0
        self.made_room()

    def drop(self) -> None:
        """It is ours no more."""
        self.is_leaving = True
        self.process.drop()
        self.stop_pulling()

    def stop_pulling(self) -> None:
        """End its pull, if one goes on."""
        if self.puller is not None:
            self.puller.cancel()
            self.puller = None

    def made_room(self) -> None:
        """Something is done: a pull may go on."""
        self._room.set()

    async def wait_for_room(self) -> None:
        """Return when there are fewer messages than the limits say."""
        while self.process.hold(self.limits) is not None:
            self._room.clear()
            await self._room.wait()
