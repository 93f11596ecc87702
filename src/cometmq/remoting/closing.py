"""How several connections are closed together."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from cometmq.remoting.channel import Channel


async def close_all(channels: Iterable[Channel], patience_ms: int) -> None:
    """Send all written bytes and close; abort a peer that does not read them in time."""
    leaving = list(channels)
    for leave in (Channel.close, Channel.abort):
        for channel in leaving:
            leave(channel)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_ms / 1000):
                for channel in leaving:
                    await channel.gone.wait()
            return
