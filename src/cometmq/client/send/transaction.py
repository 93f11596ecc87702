"""Transactions: a message that is delivered if, and only if, a local transaction is committed.

    async def pay(message): ...            # the local transaction: what it returns is its end
    async def paid(message): ...           # asked when its end was not heard of

    async with TransactionProducer("group", "127.0.0.1:9876", check=paid) as producer:
        await producer.send_in_transaction(Message("orders", b"..."), pay)

The message is stored first as a half message that nobody sees. Then the local transaction runs, and
its end is told to the broker. If that is never heard, because this process died for one, the
broker asks any producer of the group, again and again: `check` must be able to tell from the
message alone, in another process too.
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

_REGION = "DefaultRegion"  # of a broker that names none
_CHECKS_AT_ONCE = 16
_LOCALS_AT_ONCE = 64  # of plain functions, each on a thread


class TransactionState(Enum):
    """How a local transaction ended."""

    COMMIT = "COMMIT_MESSAGE"  # the message is delivered
    ROLLBACK = "ROLLBACK_MESSAGE"  # it is not
    UNKNOWN = "UNKNOW"  # the broker asks again later


_FLAG_OF = {
    TransactionState.COMMIT: MessageFlag.COMMIT,
    TransactionState.ROLLBACK: MessageFlag.ROLLBACK,
    TransactionState.UNKNOWN: MessageFlag(0),
}

Ended = TransactionState | None  # None, which a function returns that says nothing, is a commit
Local = Callable[..., Ended | Awaitable[Ended]]  # of the message, and of what became of its send
Check = Callable[[ReceivedMessage], Ended | Awaitable[Ended]]


class TransactionResult(msgspec.Struct, frozen=True):
    """What became of a message and its transaction."""

    sent: SendResult
    state: TransactionState
    is_told: bool  # the broker has heard the state; if not, it will ask


class TransactionProducer(Producer):
    """See the top of the file. It is a producer in all else."""

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
        # Of their own: a database that hangs shall hold up nothing else.
        self._threads = DaemonThreads(_LOCALS_AT_ONCE, "cometmq-transaction")
        self._ends = EndHooks()
        self._checks = _Checks(self._session, self.group, check, self.config, self._ends)
        self._member.transactions = self._checks

    def add_hook(self, hook: SendHook) -> None:
        """Have each try shown to it, and each end of a transaction, if it is an EndHook too."""
        super().add_hook(hook)
        if isinstance(hook, EndHook):
            self._ends.add(hook)

    async def _leave(self, was: str) -> None:
        """As of any producer: it waits for local transactions too, for as long."""
        try:
            await super()._leave(was)
        finally:
            self._threads.close()
            self._checks.close()

    async def send_in_transaction(
        self, message: Message, local: Local, *, with_sent: bool = False, timeout: Timeout = None
    ) -> TransactionResult:
        """Store it, run the local transaction, and tell how it ended.

        `local` is a coroutine function, or a plain one, which runs on a thread; it is given the
        message and, `with_sent`, the SendResult, whose message id is the transaction's too. It
        commits by returning COMMIT or nothing. If it raises, its end is UNKNOWN to the broker,
        which asks `check`, and what it raised is raised here. Where the broker did not store the
        half message as safely as it should, `local` is not run, and the state is ROLLBACK.
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
            self._ends.tell(
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
            await _tell(session, link, header, state)
        except (PeerError, WorldError, Closed) as error:
            log.warning("the broker was not told of a %s, and will ask: %s", state.name, error)
            return False
        return True


class _Checks:
    """Brokers ask how transactions ended: a few are answered at once, and some more wait."""

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
        self._turns = asyncio.Semaphore(_CHECKS_AT_ONCE)
        self._threads = DaemonThreads(_CHECKS_AT_ONCE, "cometmq-check")

    def close(self) -> None:
        """Those that run end by themselves."""
        self._threads.close()

    def check(self, link: Link, ask: CheckTransactionHeader, half: StoredMessage) -> None:
        """Begun at once, answered later; past the limit left for the next time it is asked."""
        if self._waiting >= self._waiting_max:
            log.warning("%d transaction checks wait already: this one is left", self._waiting)
            return
        self._waiting += 1
        self._session.background.start(self._answer(link, ask, half), "transaction check")

    async def _answer(self, link: Link, ask: CheckTransactionHeader, half: StoredMessage) -> None:
        message = ReceivedMessage.of(half, "", self._session.config.namespace)
        try:
            async with self._turns:
                state = await _ended(self._threads, self._check, message)
        except Exception:
            log.exception("the check of %s failed: the broker will ask again", message)
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
        self._ends.tell(
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
            await _tell(self._session, link, header, state)
        except (PeerError, WorldError) as error:
            log.warning("the broker was not told of a %s, and will ask: %s", state.name, error)


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
        raise TypeError(f"a transaction ended with {state!r}: return a TransactionState or None")
    return state


async def _tell(
    session: Session, link: Link, header: EndTransactionHeader, state: TransactionState
) -> None:
    """One that is unknown gets no answer from Apache's broker, so none is waited for."""
    code, timeout_ms = RequestCode.END_TRANSACTION, session.api_timeout_ms
    if state is TransactionState.UNKNOWN:
        await link.send_oneway(code, header, timeout_ms=timeout_ms)
        return
    response = await link.invoke(code, header, timeout_ms=timeout_ms)
    if response.code != ResponseCode.SUCCESS:
        raise refusal_of(response, f"broker {link.peer}")
