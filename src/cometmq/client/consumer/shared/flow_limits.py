"""How much of a queue may wait before no more of it is pulled."""

from dataclasses import dataclass, replace
from enum import Enum


class Hold(Enum):
    """Why a queue is not pulled from just now."""

    MESSAGES = "too many messages wait"
    SIZE = "the waiting messages are too large"
    SPAN = "the oldest message that is not done is too far behind"


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """Past one of these, a queue is not pulled from; of the span, None is no limit."""

    messages: int = 1000
    size: int = 100 << 20  # bytes of body
    span: int | None = 2000  # orderly consumers have none: they take the oldest first

    def shared(self, queues: int, messages: int = -1, size: int = -1) -> "FlowLimits":
        """For each of so many queues, when a topic has limits of its own; -1 is none."""
        assert queues > 0, "a topic that we have a queue of"
        return replace(
            self,
            messages=self.messages if messages < 0 else max(1, messages // queues),
            size=self.size if size < 0 else max(1, size // queues),
        )
