"""The hooks of a consumer, which observe calls of its listener."""

import logging

from cometmq.client.consumer.push.listener import ConsumeHook, ListenerCall
from cometmq.client.consumer.shared.outcomes import Outcome

log = logging.getLogger(__name__)


class Hooks:
    """Calls hooks in the order of their registration. Their exceptions are logged and ignored."""

    def __init__(self) -> None:
        self._hooks: list[ConsumeHook] = []

    def add(self, hook: ConsumeHook) -> None:
        """Call this hook for all calls from now on."""
        self._hooks.append(hook)

    def before(self, call: ListenerCall) -> None:
        """Call all hooks before a listener call."""
        for hook in self._hooks:
            try:
                hook.before(call)
            except Exception:
                log.exception("hook %r failed before a listener call", hook)

    def after(self, call: ListenerCall, outcome: Outcome) -> None:
        """Call all hooks after a listener call."""
        for hook in self._hooks:
            try:
                hook.after(call, outcome)
            except Exception:
                log.exception("hook %r failed after a listener call", hook)
