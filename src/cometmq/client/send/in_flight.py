"""How many sends are under way, for whoever waits for their end."""

import asyncio


class UnderWay:
    """Who begins adds one to the count; who ends says so."""

    __slots__ = ("_none", "count")

    def __init__(self) -> None:
        self.count = 0
        self._none: asyncio.Event | None = None  # of those who wait

    def end(self) -> None:
        """One less."""
        self.count -= 1
        if self._none is not None and not self.count:
            self._none.set()
            self._none = None

    async def until_none(self) -> None:
        """Return when there are none for a moment."""
        if self.count:
            if self._none is None:
                self._none = asyncio.Event()
            await self._none.wait()
