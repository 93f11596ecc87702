"""Hooks that observe each attempt of a send, and checks that can forbid it."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cometmq.client.message import Message, SendResult
from cometmq.protocol.bodies.queues import MessageQueue

log = logging.getLogger(__name__)


@dataclass(slots=True)
class SendContext:
    """One attempt of a send, as hooks see it before and after."""

    group: str
    messages: Sequence[Message]  # one, or those of a batch
    message_id: str
    queue: MessageQueue
    broker: str  # its address
    born_ms: int
    sys_flag: int = 0
    took_ms: int = 0  # this attempt
    is_oneway: bool = False
    result: SendResult | None = None  # before the attempt, both are None
    error: Exception | None = None
    begun_ms: int = 0  # monotonic


class SendHook(Protocol):
    """Observes each attempt. Exceptions of a hook are logged; the send continues."""

    def before_send(self, context: SendContext) -> None:
        """Called before the message is written."""

    def after_send(self, context: SendContext) -> None:
        """Called with the result or the error in the context; a one-way send has neither."""


# Called before each attempt. If it raises, the message is not sent and the send fails with that.
SendCheck = Callable[[SendContext], None]


class SendHooks:
    """The hooks and checks of one producer, called in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: list[SendHook] = []
        self._checks: list[SendCheck] = []
        self.are_there = False

    def add(self, hook: SendHook) -> None:
        """Add a hook behind the others."""
        self._hooks.append(hook)
        self.are_there = True

    def add_check(self, check: SendCheck) -> None:
        """Add a check behind the others."""
        self._checks.append(check)
        self.are_there = True

    def before(self, context: SendContext) -> None:
        """Call the checks, which may raise, then the hooks."""
        for check in self._checks:
            check(context)
        for hook in self._hooks:
            _guarded(hook.before_send, context)

    def after(self, context: SendContext) -> None:
        """Call the hooks with the result or the error."""
        for hook in self._hooks:
            _guarded(hook.after_send, context)


def _guarded(call: Callable[[SendContext], None], context: SendContext) -> None:
    try:
        call(context)
    except Exception:
        log.exception("a send hook failed; the send continues")
