"""Flow limits: how many messages of a queue may be in memory before pulling stops."""

from dataclasses import dataclass, replace
from enum import Enum


class Hold(Enum):
    """The flow limit that a queue exceeds."""

    MESSAGES = "too many messages in memory"
    SIZE = "too many bytes in memory"
    SPAN = "the oldest unfinished message is too far behind the newest"


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """A queue that exceeds one of these is not pulled from."""

    messages: int = 1000
    size: int = 100 << 20  # bytes of body
    span: int | None = 2000  # offsets; None: no limit, as for orderly consumers

    def shared(self, queues: int, messages: int = -1, size: int = -1) -> "FlowLimits":
        """The limits of each of `queues` queues, if the topic has limits too; -1 means no limit."""
        assert queues > 0, "a topic with an owned queue"
        return replace(
            self,
            messages=self.messages if messages < 0 else max(1, messages // queues),
            size=self.size if size < 0 else max(1, size // queues),
        )
