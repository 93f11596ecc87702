"""What may look at sends: hooks that see each try, and checks that forbid it."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cometmq.client.message import Message, SendResult
from cometmq.protocol.bodies.queues import MessageQueue

log = logging.getLogger(__name__)


@dataclass(slots=True)
class SendContext:
    """One try of a send, before and after."""

    group: str
    messages: Sequence[Message]  # of a batch all, else one
    message_id: str
    queue: MessageQueue
    broker: str  # its address
    born_ms: int
    sys_flag: int = 0
    took_ms: int = 0  # of this try
    is_oneway: bool = False
    result: SendResult | None = None  # with neither of the two, it is not over
    error: Exception | None = None


class SendHook(Protocol):
    """Sees each try. What it raises is logged, and stops nothing."""

    def before_send(self, context: SendContext) -> None:
        """It is about to be sent."""

    def after_send(self, context: SendContext) -> None:
        """It is over: the context has the result or the error; a one-way send has neither."""


# Raises to forbid a send: whoever sends gets what it raises.
SendCheck = Callable[[SendContext], None]


class SendHooks:
    """Those of one producer, in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: list[SendHook] = []
        self._checks: list[SendCheck] = []
        self.are_there = False

    def add(self, hook: SendHook) -> None:
        """After the others."""
        self._hooks.append(hook)
        self.are_there = True

    def add_check(self, check: SendCheck) -> None:
        """After the others."""
        self._checks.append(check)
        self.are_there = True

    def before(self, context: SendContext) -> None:
        """Ask the checks, which may raise, then tell the hooks."""
        for check in self._checks:
            check(context)
        for hook in self._hooks:
            _guarded(hook.before_send, context)

    def after(self, context: SendContext) -> None:
        """Tell the hooks."""
        for hook in self._hooks:
            _guarded(hook.after_send, context)


def _guarded(tell: Callable[[SendContext], None], context: SendContext) -> None:
    try:
        tell(context)
    except Exception:
        log.exception("a send hook failed; the send goes on")
