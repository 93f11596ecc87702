"""The events that push and lite pull consumers report."""

from collections.abc import Callable
from typing import TypeVar

from cometmq.client.consumer.shared.queue_events import QueueEvents, QueuesCallback
from cometmq.client.namespace import Namespace
from cometmq.client.session.connections import OnConnection
from cometmq.client.session.session import Session

Q = TypeVar("Q", bound=QueuesCallback)


class EventSource:
    """Base of consumers that report events of rebalances and connections."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._events = QueueEvents(Namespace(session.config.namespace))

    def on_assigned(self, callback: Q) -> Q:
        """Call `callback` with the list of queues after a rebalance has assigned them.

        The callback is a plain function, which must not block, or a coroutine function. It runs on
        the event loop; callbacks run one after the other. Queues that you `assign` yourself are not
        reported. Use it as a decorator.

        Raises:
            BadSetting: `callback` cannot be called with one argument.
        """
        self._events.on_assigned(callback)
        return callback

    def on_revoked(self, callback: Q) -> Q:
        """Call `callback` with the list of queues after they were given up.

        Their offsets are committed by then, and no new messages of them are delivered. Calls of a
        push consumer's function that is not `orderly` may still run. See `on_assigned`.

        Raises:
            BadSetting: `callback` cannot be called with one argument.
        """
        self._events.on_revoked(callback)
        return callback

    def on_connection(self, callback: OnConnection) -> Callable[[], None]:
        """Call `callback` when a broker or name server is connected, disconnected or reconnected.

        See `Session.on_connection`. Clients that share a session report the same events.

        Returns:
            A function that removes the callback.
        """
        return self._session.on_connection(callback)
