"""The blocking producer."""

from collections.abc import Callable, Iterable
from typing import Never, TypeVar

from cometmq.blocking.asker import AskerFace
from cometmq.blocking.face import posts, waits
from cometmq.blocking.session import SharedSession, core_of
from cometmq.client.config import ClientConfig, ProducerConfig
from cometmq.client.durations import Timeout
from cometmq.client.loop import LoopCall
from cometmq.client.message import Message, SendResult, no_message
from cometmq.client.send import producer as awaited
from cometmq.client.send.pending_sends import PendingSend
from cometmq.client.send.producer import options_of
from cometmq.client.send.selectors import Selector, SendOptions
from cometmq.client.send.send_hooks import SendCheck, SendHook
from cometmq.protocol.bodies.queues import MessageQueue

P = TypeVar("P", bound=awaited.Producer)


class BlockingSend(PendingSend):
    """A send whose outcome a thread waits for."""

    call: "SendCall" = None  # type: ignore[assignment] # always given
    is_over: bool = False

    def done(self) -> bool:
        """True if the thread was interrupted."""
        return self.is_over

    def deliver(self, outcome: SendResult | Exception | None) -> None:
        """Wake the thread that waits for the outcome."""
        self.is_over = True
        self.sender.end()
        if isinstance(outcome, Exception):
            self.call.end(error=outcome)
        else:
            self.call.end(outcome)


class SendCall(LoopCall[SendResult]):
    """Calls `cometmq.Producer.send` on the loop, without a task."""

    __slots__ = ("_core", "_message", "_options", "_send")

    def __init__(self, core: awaited.Producer, message: Message, options: SendOptions) -> None:
        super().__init__()
        self._core = core
        self._message = message
        self._options = options
        self._send: BlockingSend | None = None

    def __call__(self) -> None:
        """Begin the send; runs on the loop."""
        core = self._core
        try:
            self._send = core._begin(BlockingSend, self._message, self._options)  # noqa: SLF001
            self._send.call = self
        except Exception as error:  # noqa: BLE001 - raised in the thread
            self.end(error=error)

    def cancel(self) -> None:
        """Abandon the send of an interrupted thread; runs on the loop."""
        send = self._send
        if send is not None and not send.is_over:
            send.is_over = True
            send.abandon()
            send.sender.end()
            self.end()


class ProducerFace(AskerFace[P]):
    """Base of the blocking producers.

    Callbacks and hooks run on the thread of the event loop and must not block it: all clients of
    the process run there. `send_soon` raises TooManyRequests if too many sends have not begun, and
    Closed in a forked child.
    """

    def send(
        self,
        message: Message,
        *misplaced: Never,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> SendResult:
        """Send a message and return the broker's answer.

        Arguments, result and exceptions are those of `cometmq.Producer.send`.
        """
        if misplaced:
            raise no_message(message, *misplaced)
        options = options_of(queue, selector, key, timeout)
        return self._loop.wait_for(SendCall(self._core, message, options))

    def send_batch_soon(
        self,
        messages: Iterable[Message],
        callback: Callable[[list[SendResult] | Exception], object],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> None:
        """Send a batch like `send_batch` and call the callback with the results or the exception.

        The messages are iterated over in the calling thread.
        """
        messages = list(messages)
        self._loop.post(
            lambda: self._core.send_batch_soon(
                messages, callback, queue=queue, selector=selector, key=key, timeout=timeout
            )
        )

    send_soon = posts(awaited.Producer.send_soon)
    send_oneway = waits(awaited.Producer.send_oneway)
    send_batch = waits(awaited.Producer.send_batch)
    flush = waits(awaited.Producer.flush)
    request = waits(awaited.Producer.request)
    request_soon = posts(awaited.Producer.request_soon)
    reply = waits(awaited.Producer.reply)

    def add_hook(self, hook: SendHook) -> None:
        """Call the hook before and after each attempt of each send."""
        self._core.add_hook(hook)

    def add_check(self, check: SendCheck) -> None:
        """Call `check` before each attempt.

        If it raises, the message is not sent, and the send fails with the same exception.
        """
        self._core.add_check(check)


class Producer(ProducerFace[awaited.Producer]):
    """`cometmq.Producer` for code that does not await: each method blocks until it is done.

        with Producer("group", "127.0.0.1:9876") as producer:
            result = producer.send(Message("topic", b"body"))

    Any thread may use it. The arguments are those of `cometmq.Producer`.
    """

    def __init__(
        self,
        group: str | ProducerConfig,
        name_servers: str | Iterable[str] | None = None,
        *,
        client: ClientConfig | None = None,
        session: SharedSession | None = None,
    ) -> None:
        super().__init__(
            awaited.Producer(group, name_servers, client=client, session=core_of(session))
        )
