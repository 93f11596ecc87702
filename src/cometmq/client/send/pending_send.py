"""Sends that may have several tries: what goes where until when, for all of them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from cometmq.client.message import Message
from cometmq.client.send.destinations import Destination, Destinations
from cometmq.client.send.outgoing import Outgoing, Packing
from cometmq.client.send.send_template import SendTemplate
from cometmq.client.send.write_batcher import Try
from cometmq.errors import TimedOut


class Letter(msgspec.Struct):
    """A send under way. A Struct, as it is made in C."""

    messages: Sequence[Message]
    sent: Outgoing
    destination: Destination
    template: SendTemplate
    deadline_ms: int
    is_free: bool = False  # nobody has chosen its queue


@dataclass(frozen=True, slots=True)
class Letters:
    """Of one producer."""

    destinations: Destinations
    packing: Packing
    now_ms: Callable[[], int]  # monotonic

    async def of(
        self,
        message: Message,
        deadline_ms: int,
        marks: str = "",
        sys_flag: int = 0,
        *,
        is_reply: bool = False,
    ) -> Letter:
        """Of a message, with properties that are the system's own; its route is asked for."""
        packing = self.packing
        now_ms = packing.wall_ms()
        if len(message.body) >= packing.long_from:
            sent = await asyncio.to_thread(packing.pack, message, now_ms, marks, sys_flag)
        else:
            sent = packing.pack(message, now_ms, marks, sys_flag)
        destination = await self.destination(message.topic, deadline_ms, is_shared=is_reply)
        template = destination.reply if is_reply else destination.single
        return Letter((message,), sent, destination, template, deadline_ms)

    def rest_of(self, one: Try, destination: Destination) -> Letter:
        """Of a send whose first try is over: if that was written, with its key."""
        sent = one.sent or self.packing.pack(one.message, self.packing.wall_ms())
        return Letter((one.message,), sent, destination, destination.single, one.deadline_ms)

    async def destination(
        self, topic: str, deadline_ms: int, *, is_shared: bool = False
    ) -> Destination:
        """Where a topic is, asked for if it is not known; TimedOut if that takes too long."""
        known = self.destinations.get(topic)
        if known is not None:
            return known
        try:
            async with asyncio.timeout((deadline_ms - self.now_ms()) / 1000):
                return await self.destinations.of(topic, is_shared=is_shared)
        except TimeoutError:
            raise TimedOut(
                f"the name servers did not say in time who serves topic {topic}: are they up?"
            ) from None
