"""Transactions: commit, rollback, and the fate of half messages that nobody decides.

A commit puts the message into its own queue, then an op that closes the half message; a rollback
puts the op only. A half message that stays open is stored again with a count each time its
producers are asked (transaction_checks.py). After the last time it is discarded: moved to
TRANS_CHECK_MAX_TIME_TOPIC, from where an administrator can resume it. All of this is stored as by
Apache RocketMQ 4.9.7.
"""

import logging

from cometmq.broker.delivery.copies import copy_of
from cometmq.broker.delivery.half_ledger import HalfLedger
from cometmq.broker.delivery.half_message import NOT_TRANSACTION, HalfMessage
from cometmq.broker.delivery.half_queue import HalfQueue
from cometmq.broker.intake import Intake
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.tables.identity import Identity
from cometmq.broker.tables.topics import TopicTable
from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.headers.transaction import EndTransactionHeader
from cometmq.protocol.names import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from cometmq.protocol.records.message_id import OffsetId
from cometmq.protocol.records.properties import (
    PREPARED_QUEUE_OFFSET,
    TAGS,
    TRANSACTION_CHECK_TIMES,
    encode_properties,
)
from cometmq.protocol.records.property_view import edit_properties
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.results import Stored

log = logging.getLogger(__name__)

_COMMIT = int(MessageFlag.COMMIT)
_ROLLBACK = int(MessageFlag.ROLLBACK)
_UNKNOWN = 0
_OP_PROPERTIES = encode_properties({TAGS: "d"})


class Transactions:
    """Ends half messages. Every change is put through the intake, then noted in the ledger."""

    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        halves: HalfQueue,
        topics: TopicTable,
        identity: Identity,
        stats: Statistics,
    ) -> None:
        self._store = store
        self._intake = intake
        self._topics = topics
        self._identity = identity
        self._stats = stats
        self.halves = halves

    @property
    def ledger(self) -> HalfLedger:
        """Which half messages are open."""
        return self.halves.ledger

    def load(self) -> None:
        """Find the open half messages."""
        self.halves.load()

    async def save(self) -> None:
        """Commit the progress to the consumer offsets; call it before those are saved."""
        await self.halves.save()

    # Decisions of producers

    def end(self, ask: EndTransactionHeader, now_ms: int) -> Stored | None:
        """END_TRANSACTION. Returns the last stored message; None if the decision is UNKNOWN."""
        if ask.commit_or_rollback == _UNKNOWN:
            return None
        if ask.commit_or_rollback not in (_COMMIT, _ROLLBACK):
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"commitOrRollback is {ask.commit_or_rollback}, not 0, {_COMMIT} or {_ROLLBACK}",
            )
        half = self._half_named_by(ask)
        offset = self.ledger.place(half.offset)
        if offset is None:
            raise _wrong("The transaction was ended before")
        if ask.commit_or_rollback == _ROLLBACK:
            return self._close(offset, now_ms)
        destination = half.destination
        if destination is None:
            raise _wrong("The prepared message has no valid topic and queue id")
        committed = copy_of(half.message, *destination)
        committed.properties_text = half.text_for_clients()
        committed.sys_flag = half.message.sys_flag & NOT_TRANSACTION | _COMMIT
        committed.prepared_offset = ask.commit_log_offset
        put, stored = self._intake.put_as(committed, now_ms, internal=True)
        self._stats.put(put.topic, put.queue_id, 1, stored.size)
        return self._close(offset, now_ms, stored)

    def _half_named_by(self, ask: EndTransactionHeader) -> HalfMessage:
        """The half message of a request. Raises Refused if a field of the request is wrong."""
        message = self._store.record(ask.commit_log_offset)
        if message is None or message.topic != HALF_TOPIC:
            raise _wrong(f"Find prepared transaction message failed, at {ask.commit_log_offset}")
        half = HalfMessage(message)
        if half.producer_group != ask.producer_group:
            raise _wrong(f"The producer group wrong, {ask.producer_group}")
        if half.offset != ask.tran_state_table_offset:
            raise _wrong(f"The transaction state table offset wrong, {ask.tran_state_table_offset}")
        return half

    def _close(self, offset: int, now_ms: int, copy: Stored | None = None) -> Stored:
        """Put an op and close the half message.

        With a `copy`, which is stored already, a refused op does not fail the request: after a
        restart the copy is found, or the half message is open again.
        """
        try:
            stored = self._put_op(offset, now_ms)
        except Refused as error:
            if copy is None:
                raise
            log.error("no op for half message %d, a restart may reopen it: %s", offset, error)
            stored = copy
        self.ledger.close(offset)
        self.halves.changed(stored)
        return stored

    def _put_op(self, offset: int, now_ms: int) -> Stored:
        op = NewMessage(
            topic=OP_HALF_TOPIC,
            queue_id=0,
            body=str(offset).encode(),
            properties_text=_OP_PROPERTIES,
            born_ms=now_ms,
            born_host=self._identity.host,
        )
        stored = self._intake.put(op, now_ms, internal=True)
        self._topics.ensure(OP_HALF_TOPIC, 1)
        self.ledger.op(offset)
        return stored

    # Half messages that stay open

    def requeue(
        self, half: HalfMessage, now_ms: int, *, check_times: int | None
    ) -> tuple[NewMessage, Stored]:
        """Store a half message again at the end of its queue.

        `check_times` is the new count if its producers are asked now.
        """
        copy = copy_of(half.message, HALF_TOPIC, 0)
        copy.properties_text = half.text_of_copy(check_times)
        stored = self._intake.put(copy, now_ms)
        self.ledger.move(half.offset, stored.queue_offset, is_sent=check_times is not None)
        self.halves.changed(stored)
        return copy, stored

    def discard(self, half: HalfMessage, now_ms: int) -> None:
        """Move a half message that nobody decided to TRANS_CHECK_MAX_TIME_TOPIC."""
        copy = copy_of(half.message, CHECKED_TOO_OFTEN_TOPIC, 0)
        copy.properties_text = half.text_for_clients()
        stored = self._intake.put(copy, now_ms, internal=True)
        self._topics.ensure(CHECKED_TOO_OFTEN_TOPIC, 1)
        self._close(half.offset, now_ms, stored)
        log.error(
            "half message %d for %s is undecided, moved to %s",
            half.offset,
            half.destination,
            CHECKED_TOO_OFTEN_TOPIC,
        )

    def close_unreadable(self, offset: int) -> None:
        """Close a half message whose record is gone or damaged."""
        log.error("half message %d is gone or damaged", offset)
        self.ledger.close(offset)
        self.halves.changed()

    def resume(self, message_id: str, now_ms: int) -> Stored:
        """Store a discarded message as a new half message."""
        message = self._store.record(OffsetId.parse(message_id).physical_offset)
        if message is None or message.topic != CHECKED_TOO_OFTEN_TOPIC:
            raise _wrong(f"message {message_id} is not in {CHECKED_TOO_OFTEN_TOPIC}")
        half = copy_of(message, HALF_TOPIC, 0)
        half.properties_text = edit_properties(
            message.properties_text, {PREPARED_QUEUE_OFFSET: None, TRANSACTION_CHECK_TIMES: "0"}
        )
        stored = self._intake.put(half, now_ms)
        self._topics.ensure(HALF_TOPIC, 1)
        return stored


def _wrong(reason: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, reason)
