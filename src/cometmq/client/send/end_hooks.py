"""Hooks that observe the end of each transaction before it is reported to the broker."""

import logging
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EndContext:
    """The end of one transaction. Names have no namespace."""

    group: str
    topic: str
    tags: str
    keys: tuple[str, ...]
    message_id: str
    transaction_id: str
    broker: str  # its address
    region_id: str
    state: str  # Java's name of the state
    from_check: bool  # the broker asked for the state
    trace_on: bool


@runtime_checkable
class EndHook(Protocol):
    """Observes each end. Exceptions of a hook are logged; the transaction continues."""

    def transaction_ends(self, context: EndContext) -> None:
        """Called before the state is reported to the broker."""


class EndHooks:
    """The hooks of one producer, called in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: list[EndHook] = []

    def add(self, hook: EndHook) -> None:
        """Add a hook behind the others."""
        self._hooks.append(hook)

    def call(self, context: EndContext) -> None:
        """Call the hooks; log what they raise."""
        for hook in self._hooks:
            try:
                hook.transaction_ends(context)
            except Exception:
                log.exception("a transaction hook failed; the state is reported to the broker")
