"""The trace of a message: who sent and consumed it, and how long each step took."""

from cometmq.admin.messages import message as messages
from cometmq.admin.messages.reading import body_text
from cometmq.admin.rows import Row, Time
from cometmq.admin.session import AdminSession
from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.names import TRACE_TOPIC
from cometmq.protocol.trace import (
    ConsumedTrace,
    EndedTrace,
    SentTrace,
    TakenTrace,
    Trace,
    decode_traces,
)


class TraceRow(Row, frozen=True):
    """One step in the trace of a message."""

    type: str
    group: str
    client_host: str | None
    time: Time
    cost_ms: int | None
    status: str


async def by_id(
    admin: AdminSession, *, message_id: str, trace_topic: str = TRACE_TOPIC
) -> list[TraceRow]:
    """Return the steps of a message's trace, oldest first."""
    found = await messages.query(admin, trace_topic, message_id)
    traces = [
        (each, str(stored.born_host.ip))
        for _, stored in found
        for each in decode_traces(body_text(stored))
        if message_id in each.words
    ]
    begun = {each.request_id: each for each, _ in traces if isinstance(each, TakenTrace)}
    rows = [row for each, host in traces if (row := _row(each, host, begun)) is not None]
    if not rows:
        raise Refused(ResponseCode.NO_MESSAGE, f"message {message_id} has no trace")
    return sorted(rows, key=lambda row: row.time)


def _row(trace: Trace, host: str, begun: dict[str, TakenTrace]) -> TraceRow | None:
    """Return the row of a send, a consumption or a transaction end; None for other records.

    A consumption has two records: the first has the start time, the second has the outcome.
    """
    match trace:
        case SentTrace():
            status = "success" if trace.success else "failed"
            return TraceRow(
                "Pub",
                trace.group,
                trace.client_host or host,
                Time(trace.time_ms),
                trace.cost_ms,
                status,
            )
        case ConsumedTrace():
            start = begun.get(trace.request_id)
            group = trace.group or (start.group if start else "")
            time_ms = start.time_ms if start else trace.time_ms
            status = "success" if trace.success else trace.outcome.name.lower()
            return TraceRow("Sub", group, host, Time(time_ms), trace.cost_ms, status)
        case EndedTrace():
            return TraceRow(
                "EndTransaction", trace.group, host, Time(trace.time_ms), None, trace.state
            )
    return None
