"""Replies to sends: a reply, or a promise of it while the disk or the topic table is written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from cometmq.broker.config import BrokerConfig
from cometmq.broker.durable_replies import SafeAnswers
from cometmq.broker.sends.admission import SendAdmission
from cometmq.broker.statistics.stats import Statistics
from cometmq.errors import PeerError, Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers.send import RefusedSendHeader, TracedReplyHeader, send_replies
from cometmq.protocol.records.message_id import joined_offset_ids
from cometmq.remoting.dispatch import Jointly, JointOutcome, Outcome, Replies, Reply
from cometmq.remoting.promise import Promise
from cometmq.store.queue.results import Stored, StoredMessages

_SUCCESS = ResponseCode.SUCCESS.value
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SendReplies:
    """Replies of one broker; message ids have its address."""

    answers: SafeAnswers
    stats: Statistics
    admission: SendAdmission
    id_format: str

    def to_one(
        self, received_ms: int, began_ms: int, queue_id: int, stored: Stored, waits: bool
    ) -> Outcome:
        """The reply to a single send; `waits` if its producer waits until the message is safe."""
        ids = self.id_format % stored.physical_offset
        return self._to(received_ms, began_ms, ids, queue_id, stored, stored, waits)

    def to_batch(
        self, received_ms: int, began_ms: int, queue_id: int, stored: StoredMessages, waits: bool
    ) -> Outcome:
        """The reply to a batch, with the ids of all its messages."""
        ids = joined_offset_ids(self.id_format, stored.physical_offsets)
        return self._to(received_ms, began_ms, ids, queue_id, stored[0], stored[-1], waits)

    def to_several(
        self, received_ms: int, began_ms: int, queue_ids: Sequence[int], stored: StoredMessages
    ) -> JointOutcome:
        """The replies to single sends of one read."""
        now_ms = self.admission.wrote(began_ms)
        config = self.admission.settings.now(BrokerConfig)
        fields = send_replies(
            self.id_format,
            config.region_id,
            config.trace_on,
            stored.physical_offsets,
            queue_ids,
            stored.queue_offsets,
        )
        if self.answers.are_at_once:
            self.stats.put_took(now_ms - received_ms, len(fields))
            return Replies(_SUCCESS, fields)
        return self._promised(received_ms, stored[-1], len(fields), partial(_replies, fields))

    def refused(self, error: PeerError) -> Reply:
        """The reply to a send that was refused."""
        return refused_send(error, self.admission.settings.now(BrokerConfig))

    def _to(
        self,
        received_ms: int,
        began_ms: int,
        ids: str,
        queue_id: int,
        first: Stored,
        last: Stored,
        waits: bool,
    ) -> Outcome:
        now_ms = self.admission.wrote(began_ms)
        config = self.admission.settings.now(BrokerConfig)
        header = TracedReplyHeader(
            msg_id=ids,
            queue_id=queue_id,
            queue_offset=first.queue_offset,
            region_id=config.region_id,
            trace_on=config.trace_on,
        )
        if not waits or self.answers.are_at_once:
            self.stats.put_took(now_ms - received_ms)
            return Reply(_SUCCESS, header)
        if not self.answers.topics.file.is_saved:
            return self._after_topics(received_ms, last, header)
        return self._promised(received_ms, last, 1, partial(_reply, header))

    def _promised(
        self, received_ms: int, last: Stored, count: int, reply: Callable[[int, str | None], T]
    ) -> Promise[T]:
        """A promise that is kept once the last message is as safe as the settings promise."""
        promise: Promise[T] = Promise()

        def confirmed(code: int, remark: str | None) -> None:
            self._took(received_ms, count)
            promise.keep(reply(code, remark))

        self.answers.intake.confirm(last, confirmed)
        return promise

    async def _after_topics(
        self, received_ms: int, last: Stored, header: TracedReplyHeader
    ) -> Reply:
        """The reply once the new topic is saved too."""
        code = await self.answers.code(last)
        self._took(received_ms, 1)
        return Reply(code, header)

    def _took(self, received_ms: int, count: int) -> None:
        self.stats.put_took(self.admission.clock.wall_ms() - received_ms, count)


def refused_send(error: PeerError, config: BrokerConfig) -> Reply:
    """The reply to a send that was refused: a producer gets what its trace needs."""
    header = RefusedSendHeader(region_id=config.region_id, trace_on=config.trace_on)
    code = error.code if isinstance(error, Refused) else ResponseCode.SYSTEM_ERROR.value
    return Reply(code, header, remark=str(error))


def _reply(header: TracedReplyHeader, code: int, remark: str | None) -> Reply:
    return Reply(code, header if remark is None else None, remark=remark)


def _replies(fields: list[bytes], code: int, remark: str | None) -> Jointly:
    if remark is None:
        return Replies(code, fields)
    return [Reply(code, remark=remark)] * len(fields)
