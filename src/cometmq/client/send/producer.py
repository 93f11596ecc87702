"""Sends messages: awaited, told of by a call, one-way, many in one frame.

    async with Producer("group", "127.0.0.1:9876") as producer:
        result = await producer.send(Message("topic", b"body"))

What is raised before a frame is written (BadMessage, NoRoute, Closed) has changed nothing.
"""

import asyncio
import logging
from asyncio import get_running_loop
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, Self

from cometmq.client.config import ClientConfig, ProducerConfig, config_of
from cometmq.client.durations import Timeout, duration_ms
from cometmq.client.message import Message, ReceivedMessage, SendResult, SendStatus
from cometmq.client.send.callback_sends import Callback, Telling
from cometmq.client.send.destinations import Destinations
from cometmq.client.send.in_flight import UnderWay
from cometmq.client.send.outgoing import Outgoing, Packing
from cometmq.client.send.pending_send import Letter, Letters
from cometmq.client.send.queue_request import ANY, QueueRequest, choice_of
from cometmq.client.send.request_reply import RequestReply
from cometmq.client.send.selectors import FaultTable, Selector
from cometmq.client.send.send_hooks import SendCheck, SendHook, SendHooks
from cometmq.client.send.sending import Sending
from cometmq.client.send.single_send import Singles
from cometmq.client.send.write_batcher import AwaitedTry
from cometmq.client.session.asker import Asker
from cometmq.client.session.session import Session
from cometmq.client.session.session_handle import lease
from cometmq.errors import Closed, PartlySent, Refused, TimedOut
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers.send import PushReplyHeader
from cometmq.protocol.headers.transaction import CheckTransactionHeader
from cometmq.protocol.names import with_namespace
from cometmq.protocol.records.message import StoredMessage
from cometmq.remoting.dispatch import Link

log = logging.getLogger(__name__)

_NOT_STARTED = "it is not started: use `async with`, or await start()"
_CLOSED = "it is closed"


class TransactionChecks(Protocol):
    """Answers brokers that ask how a transaction ended."""

    def check(self, link: Link, ask: CheckTransactionHeader, half: StoredMessage) -> None:
        """Begun at once, answered later."""


class Producer(Asker):
    """See the top of the file. It belongs to one loop, and to the process that made it."""

    transactions: TransactionChecks | None = None  # set by who sends transactions with it

    def __init__(
        self,
        group: str | ProducerConfig,
        name_servers: str | Iterable[str] | None = None,
        *,
        client: ClientConfig | None = None,
        session: Session | None = None,
    ) -> None:
        config = config_of(ProducerConfig, group)
        self._lease = lease(name_servers, client, session)
        session = self._lease.session
        super().__init__(session)
        self.config = config
        self.group = with_namespace(session.config.namespace, config.group)
        self._now_ms = session.clock.monotonic_ms
        self._timeout_ms = duration_ms(config.send_timeout)
        self._packing = Packing(config, session.unique_key, session.clock.wall_ms)
        self._destinations = Destinations(session, config, self.group)
        self._letters = Letters(self._destinations, self._packing, self._now_ms)
        self._hooks = SendHooks()
        self._faults = FaultTable(session.clock) if config.send_latency_fault_enable else None
        self._sending = Sending(
            session, config, self.group, self._hooks, self._faults, self._packing
        )
        self._under_way = UnderWay()
        self.singles = Singles(
            self._sending, self._letters, self._under_way, self._timeout_ms, self.check_open
        )
        self._telling = Telling(self._sending, self._under_way, self.singles.resume)
        self._request_reply = RequestReply(session, self._heard, self.send_marked)
        self._not_open_why = _NOT_STARTED
        self._closing: asyncio.Task[None] | None = None

    # Its life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Send from now on; once only."""
        if self._not_open_why != _NOT_STARTED:
            raise Closed(self._not_open_why or "it is started already")
        await self._session.join_producer(self)
        self._not_open_why = ""

    async def close(self) -> None:
        """End what is begun, for as long as a send may take; then leave. May be called again."""
        if self._closing is None:
            was, self._not_open_why = self._not_open_why, _CLOSED
            self._closing = get_running_loop().create_task(self._leave(was))
        await asyncio.shield(self._closing)  # who stops waiting does not stop it half way

    async def _leave(self, was: str) -> None:
        session = self._session
        try:
            if not was and not session.closed_why:
                await self._drain()
                await session.leave_producer(self)
        finally:
            session.members.leave_producer(self)
            self._request_reply.replies.close()
            self._destinations.close()
            await self._lease.end()

    async def flush(self) -> None:
        """Return when no send is under way: all have ended, well or not."""
        await self._under_way.until_none()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await self.flush()
        except TimeoutError:
            log.warning("closed with %d sends under way", self._under_way.count)

    def check_open(self) -> None:
        """Closed, if it is, not started, or of another loop or the process that forked this."""
        if self._not_open_why:
            raise Closed(self._not_open_why)
        self._session.check_here()

    # Sends

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> SendResult:
        """Awaited, it is the broker's answer.

        The queue is the given one; or the selector's choice, which is given the key too; or that of
        the key's hash, or of the message's sharding key. Where there is none of them it is the
        next one, and only then a send that fails is tried again, at another broker. It fails with
        NoRoute, Unreachable, TimedOut, TooManyRequests, Refused or BadMessage; after TimedOut and
        Unreachable it is not known whether a broker has stored the message.
        """
        # What would be a call is written out, here and in `send_soon`.
        session = self._session
        if self._not_open_why or session.closed_why or get_running_loop() is not session.loop:
            self.check_open()
        choice = choice_of(queue, selector, key)
        singles = self.singles
        destination = singles.quick_way(message)
        if destination is None:
            return await singles.send(message, choice, timeout)
        one = AwaitedTry(
            message,
            choice.one_of(destination, message),
            self._timeout_ms if timeout is None else duration_ms(timeout),
        )
        singles.begin(one, destination)
        try:
            outcome = await one.answer
            if type(outcome) is SendResult and outcome.status is SendStatus.OK:
                return outcome
            return await singles.finish(one, destination, choice, outcome)
        except asyncio.CancelledError:
            one.forget()
            raise
        finally:
            self._under_way.end()

    def send_soon(
        self,
        message: Message,
        callback: Callback,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> None:
        """Have the callback called on this loop with the result or the error; the cheapest way.

        Neither waits nor raises. A send without an answer is tried again: at another broker, or
        at its queue if that was chosen. There may be 65 535 at once; what is more is told
        TooManyRequests: await `flush` from time to time.
        """
        try:
            session = self._session
            if self._not_open_why or session.closed_why or get_running_loop() is not session.loop:
                self.check_open()
            choice = choice_of(queue, selector, key)
            singles, telling = self.singles, self._telling
            told = telling.first_over
            if not telling.has_room or (
                singles.begin_told(message, choice, timeout, told, callback) is None
            ):
                telling.run(singles.send_there(message, choice, timeout), callback)
        except Exception as error:  # noqa: BLE001 - of a selector, for one: the callback is told
            self._telling.fail(error, callback)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> None:
        """Return when it is written; whether a broker takes it is not known."""
        self.check_open()
        self._under_way.count += 1
        try:
            letter = await self._letters.of(message, self.singles.deadline_ms(timeout))
            choice = choice_of(queue, selector, key)
            chosen = choice.one_of(letter.destination, message, self._faults)
            await self._sending.oneway(letter, chosen)
        finally:
            self._under_way.end()

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> list[SendResult]:
        """Send all to one queue in one frame, or in as few as brokers take: a result for each.

        They are of one topic, not delayed, and all waited for or none. Where there are several
        frames, each is a send of its own after the one before, with the timeout to itself, and
        PartlySent tells if a later one fails.
        """
        self.check_open()
        self._under_way.count += 1
        try:
            return await self._send_batch(list(messages), choice_of(queue, selector, key), timeout)
        finally:
            self._under_way.end()

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
        """As `send_batch`, and have the callback called with the results or the error."""
        try:
            self.check_open()
            work = self._send_batch(list(messages), choice_of(queue, selector, key), timeout)
            self._telling.run(work, callback)
        except Exception as error:  # noqa: BLE001 - the callback is told
            self._telling.fail(error, callback)

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> ReceivedMessage:
        """Send it and wait for the reply of whichever consumer takes it; the queue is as of `send`.

        TimedOut if none comes in time: then it is not known whether anybody has the request.
        """
        self.check_open()
        choice = choice_of(queue, selector, key)
        return await self._request_reply.request(message, choice, self.singles.in_ms(timeout))

    def request_soon(
        self,
        message: Message,
        callback: Callable[[ReceivedMessage | Exception], object],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> None:
        """As `request`, and have the callback called with the reply or the error."""
        work = self.request(message, queue=queue, selector=selector, key=key, timeout=timeout)
        self._telling.run(work, callback)

    async def reply(
        self, request: ReceivedMessage, body: bytes | str, *, timeout: Timeout = None
    ) -> SendResult:
        """Answer a request that a consumer of ours has taken; Refused if who asked is gone."""
        return await self._request_reply.reply(request, body, timeout)

    async def send_marked(
        self,
        message: Message,
        marks: str,
        *,
        choice: QueueRequest = ANY,
        sys_flag: int = 0,
        is_reply: bool = False,
        timeout: Timeout = None,
    ) -> SendResult:
        """With properties that are the system's own, as the wire has them: a half message, say."""
        self.check_open()
        deadline_ms = self.singles.deadline_ms(timeout)
        self._under_way.count += 1
        try:
            letter = await self._letters.of(
                message, deadline_ms, marks, sys_flag, is_reply=is_reply
            )
            return await self.singles.to(letter, choice)
        finally:
            self._under_way.end()

    # How they are done

    async def _heard(self, topic: str, deadline_ms: int) -> None:
        """Be known to the brokers of a topic."""
        if self._destinations.get(topic) is None:
            await self._letters.destination(topic, deadline_ms)
            try:
                async with asyncio.timeout((deadline_ms - self._now_ms()) / 1000):
                    await self._session.heart.beat()
            except TimeoutError:
                raise TimedOut(f"the brokers of topic {topic} did not hear of us in time") from None

    async def _send_batch(
        self, messages: Sequence[Message], choice: QueueRequest, timeout: Timeout
    ) -> list[SendResult]:
        parts = self._packing.pack_batch(messages)
        results: list[SendResult] = []
        try:
            for part, sent in parts:
                if len(results) == 1:
                    choice = QueueRequest(results[0].queue)  # they stay in order
                results.append(await self._send_part(part, sent, choice, timeout))
        except Exception as error:
            if not results:
                raise
            stored = sum(len(part) for part, _ in parts[: len(results)])
            text = f"the first {stored} of {len(messages)} messages are stored; then: {error}"
            raise PartlySent(text, results, messages[stored:]) from error
        return results

    async def _send_part(
        self, part: Sequence[Message], sent: Outgoing, choice: QueueRequest, timeout: Timeout
    ) -> SendResult:
        deadline_ms = self.singles.deadline_ms(timeout)
        destination = await self._letters.destination(part[0].topic, deadline_ms)
        letter = Letter(part, sent, destination, destination.batch, deadline_ms)
        return await self.singles.to(letter, choice)

    # Hooks

    def add_hook(self, hook: SendHook) -> None:
        """Have each try shown to it."""
        self._hooks.add(hook)

    def add_check(self, check: SendCheck) -> None:
        """Ask it before each try: what it raises forbids the send, and is raised to who sends."""
        self._hooks.add_check(check)

    # What brokers ask of a member of the session

    def check_transaction(
        self, link: Link, ask: CheckTransactionHeader, half: StoredMessage
    ) -> None:
        """How did it end? Only who sent it knows."""
        if self.transactions is None:
            text = f"the producer of group {self.group} sends no transactions"
            raise Refused(ResponseCode.SYSTEM_ERROR, text)
        self.transactions.check(link, ask, half)

    def take_reply(self, ask: PushReplyHeader, body: bytes) -> bool:
        """Is it to a request of ours?"""
        return self._request_reply.replies.take(ask, body)
