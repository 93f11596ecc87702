"""What may look at the ends of transactions: hooks that see each before the broker is told."""

import logging
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EndContext:
    """One end, names without their namespace."""

    group: str
    topic: str
    tags: str
    keys: tuple[str, ...]
    message_id: str
    transaction_id: str
    broker: str  # its address
    region_id: str
    state: str  # as Java calls it
    from_check: bool  # a broker asked
    trace_on: bool


@runtime_checkable
class EndHook(Protocol):
    """Sees each end. What it raises is logged, and stops nothing."""

    def transaction_ends(self, context: EndContext) -> None:
        """The broker is about to be told."""


class EndHooks:
    """Those of one producer, in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: list[EndHook] = []

    def add(self, hook: EndHook) -> None:
        """After the others."""
        self._hooks.append(hook)

    def tell(self, context: EndContext) -> None:
        """All of them."""
        for hook in self._hooks:
            try:
                hook.transaction_ends(context)
            except Exception:
                log.exception("a hook of transactions failed; the broker is told all the same")
