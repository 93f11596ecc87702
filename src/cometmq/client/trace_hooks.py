"""Hooks that turn sends and listener calls into trace records."""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

from cometmq.client.consumer.push.listener import ListenerCall
from cometmq.client.consumer.shared.outcomes import Ack, Commit, Outcome
from cometmq.client.message import Message, ReceivedMessage
from cometmq.client.send.end_hooks import EndContext
from cometmq.client.send.send_hooks import SendContext
from cometmq.protocol import trace
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.records.properties import MSG_REGION, TRACE_ON
from cometmq.seams import Clock

AddTrace = Callable[[trace.Trace], None]  # buffers a record


@dataclass(frozen=True, slots=True)
class SendTracing:
    """The hook for producers and transactions."""

    add: AddTrace
    clock: Clock

    def before_send(self, context: SendContext) -> None:
        """Do nothing: all values are known after the send."""

    def after_send(self, context: SendContext) -> None:
        """Add one record; the first message represents a batch."""
        result = context.result
        if result is None or not result.region_id or not result.trace_on:
            return
        first = context.messages[0]
        self.add(
            trace.SentTrace(
                time_ms=context.born_ms,
                region_id=result.region_id,
                group=context.group,
                topic=first.topic,
                message_id=result.message_id.partition(",")[0],
                tags=first.tags or "",
                keys=" ".join(first.keys),
                store_host=context.broker,
                body_size=sum(len(message.body) for message in context.messages),
                cost_ms=context.took_ms,
                kind=_kind(first, context),
                offset_id=result.offset_id,
            )
        )

    def transaction_ends(self, context: EndContext) -> None:
        """Add one record for the end of a transaction."""
        if not context.trace_on:
            return
        self.add(
            trace.EndedTrace(
                time_ms=self.clock.wall_ms(),
                region_id=context.region_id,
                group=context.group,
                topic=context.topic,
                message_id=context.message_id,
                tags=context.tags,
                keys=" ".join(context.keys),
                store_host=context.broker,
                transaction_id=context.transaction_id,
                state=context.state,
                from_check=context.from_check,
            )
        )


def _kind(message: Message, context: SendContext) -> trace.MessageKind:
    if context.sys_flag & MessageFlag.PREPARED:
        return trace.MessageKind.HALF
    return trace.MessageKind.DELAYED if message.delay_level else trace.MessageKind.NORMAL


@dataclass(frozen=True, slots=True)
class ConsumeTracing:
    """The hook for consumers of a group: one record before each call, one after it."""

    add: AddTrace
    group: str
    clock: Clock
    _name: str = field(default_factory=lambda: uuid4().hex[:16].upper())

    def before(self, call: ListenerCall) -> None:
        """Add a record for each message that the listener receives."""
        request_id = self._request_id(call)
        for message in _traced(call):
            self.add(
                trace.TakenTrace(
                    time_ms=self.clock.wall_ms(),
                    region_id=message.properties.get(MSG_REGION, ""),
                    group=self.group,
                    request_id=request_id,
                    message_id=message.message_id,
                    retries=message.reconsume_times,
                    keys=" ".join(message.keys),
                )
            )

    def after(self, call: ListenerCall, outcome: Outcome) -> None:
        """Add a record for each message with the listener's outcome."""
        request_id, messages = self._request_id(call), _traced(call)
        for message in messages:
            self.add(
                trace.ConsumedTrace(
                    request_id=request_id,
                    message_id=message.message_id,
                    cost_ms=call.took_ms // len(messages),
                    success=isinstance(outcome, Ack | Commit),
                    keys=" ".join(message.keys),
                    outcome=_outcome(call, outcome),
                    time_ms=self.clock.wall_ms(),
                    group=self.group,
                )
            )

    def _request_id(self, call: ListenerCall) -> str:
        """Return the id of a call: equal before and after, unique among running calls."""
        return f"{self._name}{id(call):012X}"


def _traced(call: ListenerCall) -> list[ReceivedMessage]:
    return [each for each in call.messages if each.properties.get(TRACE_ON) != "false"]


def _outcome(call: ListenerCall, outcome: Outcome) -> trace.Outcome:
    if call.error is not None:
        return trace.Outcome.EXCEPTION
    if isinstance(outcome, Ack | Commit):
        return trace.Outcome.SUCCESS
    return trace.Outcome.FAILED
