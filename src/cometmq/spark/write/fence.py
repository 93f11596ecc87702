"""Waits until no earlier attempt at a partition can still store a message on a broker.

A sender registers as a producer before it sends. Once it is off the broker's list of producers, its
connection is closed, and everything it sent was accepted or never will be. The fence then waits
until the broker has dispatched its log to the queues.
"""

import time

from cometmq.errors import TimedOut
from cometmq.protocol.bodies.consumer import ProducerConnection
from cometmq.protocol.bodies.heartbeat import Heartbeat, ProducerData
from cometmq.protocol.bodies.tables import KeyValues
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.client import ProducerGroupHeader
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.spark.read.link import BlockingLink

_POLL_S = 0.05
_WAIT_S_MAX = 60
# A broker drops requests that wait longer than this: its waitTimeMillsInSendQueue.
_QUEUED_S = 0.25


def register_producer(link: BlockingLink, group: str, client_id: str) -> None:
    """Send a heartbeat that registers a producer on the broker's list."""
    heartbeat = Heartbeat(client_id=client_id, producer_data_set=[ProducerData(group_name=group)])
    link.granted(link.ask(RequestCode.HEART_BEAT, None, dumps(heartbeat)))


def wait_for_others(
    link: BlockingLink, group: str, client_id: str, client_prefix: str, *, drain: bool
) -> None:
    """Wait for the end of other attempts on one broker.

    Args:
        link: Connection to the broker.
        group: Producer group of all attempts.
        client_id: Client id of this attempt.
        client_prefix: Prefix of the client ids of all attempts at the partition.
        drain: Whether an earlier attempt may have ended just now, so that its requests may still be
            in the broker's send queue.
    """
    register_producer(link, group, client_id)
    deadline = time.monotonic() + _WAIT_S_MAX
    while _has_others(link, group, client_id, client_prefix):
        drain = True
        _pause(deadline, f"another attempt at this partition still sends to {link.address}")
    if drain:
        time.sleep(_QUEUED_S)
    log_end: int | None = None
    while True:
        found = dispatched(link)
        if found is not None:
            log_end = found[0] if log_end is None else log_end
            if found[1] >= log_end:
                return
        _pause(deadline, f"{link.address} has not dispatched its log to its queues")


def _has_others(link: BlockingLink, group: str, client_id: str, client_prefix: str) -> bool:
    header = ProducerGroupHeader(producer_group=group)
    response = link.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
    known = loads(bytes(link.granted(response).body), ProducerConnection).connection_set
    return any(
        each.client_id.startswith(client_prefix) and each.client_id != client_id for each in known
    )


def _pause(deadline: float, reason: str) -> None:
    if time.monotonic() > deadline:
        raise TimedOut(f"waited {_WAIT_S_MAX} s: {reason}")
    time.sleep(_POLL_S)


def dispatched(link: BlockingLink) -> tuple[int, int] | None:
    """Return the end of the log and the log offset up to which it is dispatched to queues.

    None if the broker cannot answer: Apache's brokers fail in the first second after their start.
    """
    response = link.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    if response.code == ResponseCode.SYSTEM_ERROR:
        return None
    table = loads(bytes(link.granted(response).body), KeyValues).table
    log_end = int(table.get("commitLogMaxOffset", 0))
    return log_end, log_end - int(table.get("dispatchBehindBytes", 0))
