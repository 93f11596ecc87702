"""Those who watch the calls of a listener. Their mistakes are logged, and change nothing."""

import logging

from cometmq.client.consumer.push.listener import ConsumeHook, ListenerCall
from cometmq.client.consumer.shared.outcomes import Outcome

log = logging.getLogger(__name__)


class Hooks:
    """In the order in which they came; told on the loop."""

    def __init__(self) -> None:
        self._hooks: list[ConsumeHook] = []

    def add(self, hook: ConsumeHook) -> None:
        """Tell it of all calls from now on."""
        self._hooks.append(hook)

    def before(self, call: ListenerCall) -> None:
        """The messages go to the listener."""
        for hook in self._hooks:
            try:
                hook.before(call)
            except Exception:
                log.exception("the hook %r failed before a call", hook)

    def after(self, call: ListenerCall, outcome: Outcome) -> None:
        """What it made of them."""
        for hook in self._hooks:
            try:
                hook.after(call, outcome)
            except Exception:
                log.exception("the hook %r failed after a call", hook)
