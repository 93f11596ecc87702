"""Transactions: a message is delivered if, and only if, a local transaction is committed.

The message is stored first as a half message, which consumers do not receive. Then the local
transaction runs, and its state is reported to the broker. If the report does not arrive, because
the process died for example, the broker asks any producer of the group, repeatedly: `check` must
find the state from the message alone, also in another process.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextvars import copy_context
from enum import Enum

import msgspec

from cometmq.client.callables import check_callable
from cometmq.client.config import ClientConfig, ProducerConfig
from cometmq.client.daemon_threads import DaemonThreads
from cometmq.client.durations import Timeout
from cometmq.client.message import Message, ReceivedMessage, SendResult, SendStatus
from cometmq.client.send.end_hooks import EndContext, EndHook, EndHooks
from cometmq.client.send.producer import Producer, options_of
from cometmq.client.send.send_hooks import SendHook
from cometmq.client.session.session import Session
from cometmq.errors import BadMessage, Closed, PeerError, WorldError
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.headers.transaction import CheckTransactionHeader, EndTransactionHeader
from cometmq.protocol.records.message import StoredMessage
from cometmq.protocol.records.message_id import OffsetId
from cometmq.protocol.records.properties import (
    MSG_REGION,
    PRODUCER_GROUP,
    TRACE_ON,
    TRANSACTION_PREPARED,
    UNIQ_KEY,
    encode_properties,
)
from cometmq.protocol.refusal import refusal_of
from cometmq.remoting.dispatch import Link

log = logging.getLogger(__name__)

_REGION = "DefaultRegion"  # if the broker sends none
_CHECKS_MAX = 16  # that run concurrently
_LOCALS_MAX = 64  # plain functions that run concurrently, each on a thread


class TransactionState(Enum):
    """The state of a local transaction."""

    COMMIT = "COMMIT_MESSAGE"  # the message is delivered
    ROLLBACK = "ROLLBACK_MESSAGE"  # the message is discarded
    UNKNOWN = "UNKNOW"  # the broker asks later; Java spells it so


_FLAG_OF = {
    TransactionState.COMMIT: MessageFlag.COMMIT,
    TransactionState.ROLLBACK: MessageFlag.ROLLBACK,
    TransactionState.UNKNOWN: MessageFlag(0),
}

Ended = TransactionState | None  # None: commit
Local = Callable[..., Ended | Awaitable[Ended]]  # called with the message, and the SendResult
Check = Callable[[ReceivedMessage], Ended | Awaitable[Ended]]


class TransactionResult(msgspec.Struct, frozen=True):
    """The result of a message in a transaction.

    Attributes:
        sent: The result of sending the half message.
        state: The state of the local transaction.
        is_told: True if the broker received the state; otherwise it will ask for it.
    """

    sent: SendResult
    state: TransactionState
    is_told: bool


class TransactionProducer(Producer):
    """A producer that also sends messages in transactions.

        async def pay(message): ...   # the local transaction; returns its state
        async def paid(message): ...  # called when the broker asks for the state

        async with TransactionProducer("group", "127.0.0.1:9876", check=paid) as producer:
            await producer.send_in_transaction(Message("orders", b"..."), pay)

    Args:
        group: the name of the producer group, or a ProducerConfig.
        name_servers: as of `Producer`; also `client` and `session`.
        check: a function that returns the state of the transaction of a message. It is called when
            the broker has no state, also for messages of other processes of the group. A plain
            function runs on a thread.
    """

    def __init__(
        self,
        group: str | ProducerConfig,
        name_servers: str | Iterable[str] | None = None,
        *,
        check: Check,
        client: ClientConfig | None = None,
        session: Session | None = None,
    ) -> None:
        check_callable("check", check, "a message")
        super().__init__(group, name_servers, client=client, session=session)
        # Threads of its own: a database that hangs must not block anything else.
        self._threads = DaemonThreads(_LOCALS_MAX, "cometmq-transaction")
        self._ends = EndHooks()
        self._checks = _Checks(self._session, self.group, check, self.config, self._ends)
        self._member.transactions = self._checks

    def add_hook(self, hook: SendHook) -> None:
        """Call the hook for each attempt, and for each transaction if it is an EndHook too."""
        super().add_hook(hook)
        if isinstance(hook, EndHook):
            self._ends.add(hook)

    async def _leave(self, was: str) -> None:
        """Close like a Producer; local transactions count as sends in flight."""
        try:
            await super()._leave(was)
        finally:
            self._threads.close()
            self._checks.close()

    async def send_in_transaction(
        self, message: Message, local: Local, *, with_sent: bool = False, timeout: Timeout = None
    ) -> TransactionResult:
        """Send a message, run the local transaction and report its state to the broker.

        Args:
            message: the message; it must not be delayed.
            local: the local transaction, called with the message. It commits by returning COMMIT
                or None. A coroutine function runs on the loop, a plain function on a thread.
            with_sent: also pass the SendResult to `local`; its message id is the transaction id.
            timeout: for sending the message.

        Returns:
            The state. If the broker did not store the message safely, `local` is not called and
            the state is ROLLBACK.

        Raises:
            Exception: any exception of `local`; the state is UNKNOWN, and the broker will ask.
            BadMessage: the message is delayed.

        It also raises what `send` raises; then `local` was not called.
        """
        check_callable("local", local, "a message", *(["a SendResult"] if with_sent else []))
        if message.delay_level:
            raise BadMessage("a message in a transaction cannot be delayed: set delay_level to 0")
        self._check_open()
        marks = encode_properties({TRANSACTION_PREPARED: "true", PRODUCER_GROUP: self.group})
        options = options_of(None, None, None, timeout)
        self._sender.in_flight += 1
        try:
            sent = await self._send_marked(message, marks, options, sys_flag=MessageFlag.PREPARED)
            given = (message, sent) if with_sent else (message,)
            return await self._run_local(message, sent, local, given)
        finally:
            self._sender.end()

    async def _run_local(
        self, message: Message, sent: SendResult, local: Local, given: tuple[object, ...]
    ) -> TransactionResult:
        if sent.status is not SendStatus.OK:
            is_told = await self._end(message, sent, TransactionState.ROLLBACK)
            return TransactionResult(sent, TransactionState.ROLLBACK, is_told)
        try:
            state = await _ended(self._threads, local, *given)
        except BaseException:
            await asyncio.shield(self._end(message, sent, TransactionState.UNKNOWN))
            raise
        is_told = await asyncio.shield(self._end(message, sent, state))
        return TransactionResult(sent, state, is_told)

    async def _end(self, message: Message, sent: SendResult, state: TransactionState) -> bool:
        session = self._session
        try:
            header = EndTransactionHeader(
                producer_group=self.group,
                tran_state_table_offset=sent.queue_offset,
                commit_log_offset=OffsetId.parse(sent.offset_id).physical_offset,
                commit_or_rollback=_FLAG_OF[state],
                msg_id=sent.message_id,
                transaction_id=sent.transaction_id or sent.message_id,
            )
            session.check_open()
            address = session.master_of(sent.queue.broker_name)
            self._ends.call(
                EndContext(
                    group=self.config.group,
                    topic=message.topic,
                    tags=message.tags or "",
                    keys=message.keys,
                    message_id=sent.message_id,
                    transaction_id=header.transaction_id or "",
                    broker=address,
                    region_id=sent.region_id or _REGION,
                    state=state.value,
                    from_check=False,
                    trace_on=sent.trace_on,
                )
            )
            link = await session.pool.connection(address, session.api_timeout_ms)
            await _report(session, link, header, state)
        except (PeerError, WorldError, Closed) as error:
            log.warning("%s was not reported to the broker, which will ask: %s", state.name, error)
            return False
        return True


class _Checks:
    """Answers the checks of brokers: some run concurrently, and a bounded number waits."""

    def __init__(
        self, session: Session, group: str, check: Check, config: ProducerConfig, ends: EndHooks
    ) -> None:
        self._session = session
        self._group = group
        self._check = check
        self._ends = ends
        self._bare_group = config.group
        self._waiting_max = config.check_request_hold_max
        self._waiting = 0
        self._turns = asyncio.Semaphore(_CHECKS_MAX)
        self._threads = DaemonThreads(_CHECKS_MAX, "cometmq-check")

    def close(self) -> None:
        """Start no more checks; running ones end by themselves."""
        self._threads.close()

    def check(self, link: Link, ask: CheckTransactionHeader, half: StoredMessage) -> None:
        """Start a check; past the limit it is dropped, and the broker repeats it."""
        if self._waiting >= self._waiting_max:
            log.warning("dropped a transaction check: %d are waiting", self._waiting)
            return
        self._waiting += 1
        self._session.background.start(self._answer(link, ask, half), "transaction check")

    async def _answer(self, link: Link, ask: CheckTransactionHeader, half: StoredMessage) -> None:
        message = ReceivedMessage.of(half, "", self._session.config.namespace)
        try:
            async with self._turns:
                state = await _ended(self._threads, self._check, message)
        except Exception:
            log.exception("the check of %s failed; the broker will repeat it", message)
            state = TransactionState.UNKNOWN
        finally:
            self._waiting -= 1
        header = EndTransactionHeader(
            producer_group=self._group,
            tran_state_table_offset=ask.tran_state_table_offset,
            commit_log_offset=ask.commit_log_offset,
            commit_or_rollback=_FLAG_OF[state],
            from_transaction_check=True,
            msg_id=message.properties.get(UNIQ_KEY) or ask.msg_id or "",
            transaction_id=ask.transaction_id,
        )
        self._ends.call(
            EndContext(
                group=self._bare_group,
                topic=message.topic,
                tags=message.tags or "",
                keys=message.keys,
                message_id=header.msg_id or "",
                transaction_id=ask.transaction_id or "",
                broker=str(link.peer),
                region_id=message.properties.get(MSG_REGION) or _REGION,
                state=state.value,
                from_check=True,
                trace_on=message.properties.get(TRACE_ON) != "false",
            )
        )
        try:
            await _report(self._session, link, header, state)
        except (PeerError, WorldError) as error:
            log.warning("%s was not reported to the broker, which will ask: %s", state.name, error)


async def _ended(
    threads: DaemonThreads, work: Callable[..., Ended | Awaitable[Ended]], *given: object
) -> TransactionState:
    if inspect.iscoroutinefunction(work):
        state = await work(*given)
    else:
        context = copy_context()
        state = await threads.run(lambda: context.run(work, *given))
        if inspect.isawaitable(state):
            state = await state
    if state is None:
        return TransactionState.COMMIT
    if not isinstance(state, TransactionState):
        raise TypeError(f"the transaction returned {state!r}: return a TransactionState or None")
    return state


async def _report(
    session: Session, link: Link, header: EndTransactionHeader, state: TransactionState
) -> None:
    """Report a state. UNKNOWN is one-way, because Apache's broker does not answer it."""
    code, timeout_ms = RequestCode.END_TRANSACTION, session.api_timeout_ms
    if state is TransactionState.UNKNOWN:
        await link.send_oneway(code, header, timeout_ms=timeout_ms)
        return
    response = await link.invoke(code, header, timeout_ms=timeout_ms)
    if response.code != ResponseCode.SUCCESS:
        raise refusal_of(response, f"broker {link.peer}")
