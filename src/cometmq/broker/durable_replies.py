"""An answer that may be given only once what it tells is safe: the message, and its topic."""

from dataclasses import dataclass

from cometmq.broker.intake import Intake
from cometmq.broker.tables.topics import TopicTable
from cometmq.remoting.dispatch import Outcome, Reply
from cometmq.store.queue.results import Stored


@dataclass(frozen=True, slots=True)
class SafeAnswers:
    """Of requests that put a message, and perhaps made a topic for it."""

    topics: TopicTable
    intake: Intake

    @property
    def are_at_once(self) -> bool:
        """A put alone is enough now."""
        return self.topics.file.is_saved and not self.intake.must_confirm

    def to(self, stored: Stored | None) -> Outcome:
        """The answer to whoever put this, if anything was put."""
        if stored is None or self.are_at_once:
            return Reply()
        return self._later(stored)

    async def code(self, stored: Stored) -> int:
        """What its producer is told, once that is true."""
        await self.topics.file.save()
        return await self.intake.confirmed(stored)

    async def _later(self, stored: Stored) -> Reply:
        return Reply(await self.code(stored))
