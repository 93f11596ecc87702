"""Transactions: half messages, and what becomes of them.

A half message waits in a queue that no consumer reads. Its end, commit or rollback, is a message
in the queue of ops that names it; a commit first puts the message itself where it belongs. One
that stays undecided is put again with a count (transaction_checks.py asks its producers), and put
away after the last time. How far both queues are done stands in the consumer offsets of a group
of the system's own. All of this is as the original keeps it: each can go on where the other ended.
"""

import logging
from collections.abc import Callable, Iterator

import msgspec

from cometmq.background import Background
from cometmq.broker.delivery.copies import copy_of, real_queue
from cometmq.broker.delivery.half_ledger import HalfLedger
from cometmq.broker.intake import Intake
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.tables.durable_progress import DurableProgress
from cometmq.broker.tables.identity import Identity
from cometmq.broker.tables.offsets import ConsumerOffsets
from cometmq.broker.tables.topics import TopicTable
from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.headers.transaction import EndTransactionHeader
from cometmq.protocol.names import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from cometmq.protocol.records.message import StoredMessage
from cometmq.protocol.records.message_id import OffsetId
from cometmq.protocol.records.properties import (
    CHECK_IMMUNITY_SECONDS,
    DELAY,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED,
    UNIQ_KEY,
    encode_properties,
    number_in,
    put_property,
    take_property,
)
from cometmq.seams import Clock
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.results import Stored

log = logging.getLogger(__name__)

GROUP = "CID_RMQ_SYS_TRANS"
_COMMIT = int(MessageFlag.COMMIT)
_ROLLBACK = int(MessageFlag.ROLLBACK)
_UNKNOWN = 0
_NOT_TRANSACTION = ~int(MessageFlag.TRANSACTION)
_DECIDED = encode_properties({TAGS: "d"})
_KEEP_MS = 1_000
_EVER_MS = 2**62


def is_half(message: NewMessage) -> bool:
    """Its producer wants to decide later. A consumer's retry may still say so, and is none."""
    _, said = take_property(message.properties_text, TRANSACTION_PREPARED)
    if said is None or said.lower() != "true":
        return False
    return not (message.reconsume_times > 0 and number_in(message.properties_text, DELAY))


def half_of(message: NewMessage) -> NewMessage:
    """What is stored of a message until its producer decides.

    Never delayed, as the original's own client has it; and a message that was one before does
    not bring its history along.
    """
    text = message.properties_text
    for name in (DELAY, TRANSACTION_CHECK_TIMES, PREPARED_QUEUE_OFFSET):
        text, _ = take_property(text, name)
    text = put_property(text, REAL_TOPIC, message.topic)
    text = put_property(text, REAL_QUEUE_ID, str(message.queue_id))
    return msgspec.structs.replace(
        message,
        topic=HALF_TOPIC,
        queue_id=0,
        properties_text=text,
        sys_flag=message.sys_flag & _NOT_TRANSACTION,
    )


def outside_of(half_text: str) -> str:
    """The properties of a half message as clients see them.

    Every half message that is put again here names the place of its first, so that a restart finds
    it. Apache's broker stores that name only for a message with a check immunity time.
    """
    if take_property(half_text, CHECK_IMMUNITY_SECONDS)[1] is not None:
        return half_text
    return take_property(half_text, PREPARED_QUEUE_OFFSET)[0]


class Transactions:
    """The half messages of a broker, and their ends."""

    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        identity: Identity,
        clock: Clock,
        background: Background,
        stats: Statistics,
        is_indexed: Callable[[], bool],
    ) -> None:
        self._store = store
        self._stats = stats
        self._is_indexed = is_indexed  # messages can be found by their keys
        self._intake = intake
        self._topics = topics
        self._offsets = offsets
        self._identity = identity
        self._progress = DurableProgress(
            store, clock, background, lambda: _KEEP_MS, self._now, self._keep
        )
        self.ledger = HalfLedger(0, 0)

    # How far it is

    def load(self) -> None:
        """Find out what is undecided, from the offsets that are kept on."""
        self.ledger = ledger = HalfLedger(self._kept(HALF_TOPIC), self._kept(OP_HALF_TOPIC))
        # A half message whose unit is wrong would be taken for a damaged one, and be closed.
        self._store.check_units(OP_HALF_TOPIC, 0, ledger.op_progress)
        self._store.check_units(HALF_TOPIC, 0, ledger.progress)
        decided = set()
        for op in self._messages(OP_HALF_TOPIC, ledger.op_progress):
            named = _named_by(op)
            decided.add(named)
            ledger.op(named)
        for offset, half in enumerate(self._messages(HALF_TOPIC, ledger.progress), ledger.progress):
            text = half.properties_text if half is not None else ""
            first = number_in(text, PREPARED_QUEUE_OFFSET)
            if first is not None:
                ledger.adopt(first, offset)  # what was before the copy is closed with it
            if half is None or offset in decided or first in decided:
                ledger.close(offset)
        for offset in filter(ledger.is_open, range(ledger.progress, self.half_end)):
            if self._has_copy(offset):
                log.info("half message %d was committed before the stop", offset)
                ledger.close(offset)

    def _has_copy(self, offset: int) -> bool:
        """It is where it belongs, and no op says so: the process ended between the two puts.

        Its copy names the place by which its producer knew it. It is found by its unique key, so
        without one it is undecided again, and may come twice.
        """
        half = self.half(offset)
        text = half.properties_text if half is not None else ""
        _, key = take_property(text, UNIQ_KEY)
        place = real_queue(text)
        if half is None or not key or place is None or not self._is_indexed():
            return False
        # At any time: the clock may have been set back between the half message and its copy.
        found = self._store.query(place[0], key, 0, _EVER_MS)
        halves = [self._store.record(copy.prepared_offset) for copy in found]
        return any(
            each.topic == HALF_TOPIC and self.ledger.place(each.queue_offset) == offset
            for each in halves
            if each is not None
        )

    async def save(self) -> None:
        """Put in the offsets how far it is, once that is on disk; before those are saved."""
        await self._progress.save()

    def half(self, offset: int) -> StoredMessage | None:
        """The half message at this place of its queue; None if it is gone or damaged."""
        return self._store.message(HALF_TOPIC, 0, offset)

    @property
    def half_end(self) -> int:
        """Where the queue of half messages ends."""
        return self._store.bounds(HALF_TOPIC, 0)[1]

    def _kept(self, topic: str) -> int:
        first, end = self._store.bounds(topic, 0)
        kept = self._offsets.get(GROUP, topic, 0)
        return min(max(first, kept or 0), end)

    def _messages(self, topic: str, start: int) -> Iterator[StoredMessage | None]:
        for offset in range(start, self._store.bounds(topic, 0)[1]):
            yield self._store.message(topic, 0, offset)

    def _now(self) -> tuple[int, int]:
        return self.ledger.progress, self.ledger.op_progress

    async def _keep(self, progress: tuple[int, int]) -> None:
        for topic, offset in zip((HALF_TOPIC, OP_HALF_TOPIC), progress, strict=True):
            if offset != (self._offsets.get(GROUP, topic, 0) or 0):
                self._offsets.commit(GROUP, topic, 0, offset)

    # Its end

    def end(self, ask: EndTransactionHeader, now_ms: int) -> Stored | None:
        """What END_TRANSACTION says; what was stored for it, None if its producer does not know."""
        if ask.commit_or_rollback == _UNKNOWN:
            return None
        if ask.commit_or_rollback not in (_COMMIT, _ROLLBACK):
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"commitOrRollback is {ask.commit_or_rollback}, not 0, {_COMMIT} or {_ROLLBACK}",
            )
        message = self._prepared(ask)
        offset = self.ledger.place(message.queue_offset)
        if offset is None:
            raise _wrong("The transaction was ended before")
        if ask.commit_or_rollback == _ROLLBACK:
            return self._closed(offset, now_ms)
        place = real_queue(message.properties_text)
        if place is None:
            raise _wrong("The prepared message does not say where it belongs")
        committed = copy_of(message, *place)
        committed.properties_text = outside_of(message.properties_text)
        committed.sys_flag = message.sys_flag & _NOT_TRANSACTION | _COMMIT
        committed.prepared_offset = ask.commit_log_offset
        put, stored = self._intake.put_as(committed, now_ms, internal=True)
        self._stats.put(put.topic, put.queue_id, 1, stored.size)
        return self._closed(offset, now_ms, stored)

    def _prepared(self, ask: EndTransactionHeader) -> StoredMessage:
        """The half message that the request means, if all that it says of it is right."""
        message = self._store.record(ask.commit_log_offset)
        if message is None or message.topic != HALF_TOPIC:
            raise _wrong(f"Find prepared transaction message failed, at {ask.commit_log_offset}")
        _, group = take_property(message.properties_text, PRODUCER_GROUP)
        if group != ask.producer_group:
            raise _wrong(f"The producer group wrong, {ask.producer_group}")
        if message.queue_offset != ask.tran_state_table_offset:
            raise _wrong(f"The transaction state table offset wrong, {ask.tran_state_table_offset}")
        return message

    def _closed(self, offset: int, now_ms: int, copy: Stored | None = None) -> Stored:
        """With an op that says so. If there is a copy, its end must not fail for want of one."""
        try:
            stored = self._put_op(offset, now_ms)
        except Refused as error:
            if copy is None:
                raise
            log.error("no op for half message %d, it may come again: %s", offset, error)
            stored = copy
        self.ledger.close(offset)
        self._progress.moved(stored)
        return stored

    def _put_op(self, offset: int, now_ms: int) -> Stored:
        op = NewMessage(
            topic=OP_HALF_TOPIC,
            queue_id=0,
            body=str(offset).encode(),
            properties_text=_DECIDED,
            born_ms=now_ms,
            born_host=self._identity.host,
        )
        stored = self._intake.put(op, now_ms, internal=True)
        self._topics.ensure(OP_HALF_TOPIC, 1)
        self.ledger.op(offset)
        return stored

    # While it has none

    def put_again(
        self, offset: int, half: StoredMessage, now_ms: int, *, check_times: int | None
    ) -> tuple[NewMessage, Stored]:
        """The half message at the end of its queue; with how often it was asked about, if it is."""
        text = half.properties_text
        if check_times is not None:
            text = put_property(text, TRANSACTION_CHECK_TIMES, str(check_times))
        if number_in(text, PREPARED_QUEUE_OFFSET) is None:
            text = put_property(text, PREPARED_QUEUE_OFFSET, str(offset))
        again = copy_of(half, HALF_TOPIC, 0)
        again.properties_text = text
        stored = self._intake.put(again, now_ms)
        self.ledger.move(offset, stored.queue_offset, is_told=check_times is not None)
        self._progress.moved(stored)
        return again, stored

    def put_away(self, offset: int, half: StoredMessage, now_ms: int) -> None:
        """Nobody will decide any more: it goes where people find it."""
        copy = copy_of(half, CHECKED_TOO_OFTEN_TOPIC, 0)
        copy.properties_text = outside_of(half.properties_text)
        stored = self._intake.put(copy, now_ms, internal=True)
        self._topics.ensure(CHECKED_TOO_OFTEN_TOPIC, 1)
        self._closed(offset, now_ms, stored)
        log.error("half message %d of %s is put away", offset, real_queue(half.properties_text))

    def give_up(self, offset: int) -> None:
        """Its record is gone or damaged."""
        log.error("half message %d cannot be read any more", offset)
        self.ledger.close(offset)
        self._progress.moved()

    def resume(self, message_id: str, now_ms: int) -> Stored:
        """Make a message that was put away a half message again, as if it were new."""
        message = self._store.record(OffsetId.parse(message_id).physical_offset)
        if message is None or message.topic != CHECKED_TOO_OFTEN_TOPIC:
            raise _wrong(f"message {message_id} is none of {CHECKED_TOO_OFTEN_TOPIC}")
        half = copy_of(message, HALF_TOPIC, 0)
        text, _ = take_property(message.properties_text, PREPARED_QUEUE_OFFSET)
        half.properties_text = put_property(text, TRANSACTION_CHECK_TIMES, "0")
        stored = self._intake.put(half, now_ms)
        self._topics.ensure(HALF_TOPIC, 1)
        return stored


def _named_by(op: StoredMessage | None) -> int:
    """The half message that an op is about; -1 for none."""
    if op is not None and op.body.isdigit():
        return int(op.body)
    log.error("op %s names no half message", op)
    return -1


def _wrong(reason: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, reason)
