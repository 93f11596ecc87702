"""Single pulls that look at a queue before it is read: store times, filters, record sizes."""

from dataclasses import replace

from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.refusal import refusal_of
from cometmq.spark.files.frames import records_of_pull
from cometmq.spark.read.offsets import Range
from cometmq.spark.read.pull import PULL_CODES
from cometmq.spark.read.reading import Reading


def store_time_ms(reading: Reading, queue: MessageQueue, offset: int) -> int | None:
    """Return when the message at an offset was stored; None if it does not exist.

    The filter of the reading is not applied: with it a broker could return a later message.
    """
    every = replace(reading, expression="*", expression_kind="TAG")
    link = reading.cluster.link_to(queue.topic, queue.broker_name)
    response = link.ask(RequestCode.PULL_MESSAGE, every.header(queue, offset, 1))
    if response.code != ResponseCode.SUCCESS:
        return None
    return int(records_of_pull(response.body).stored_ms[0])


def check_filter(reading: Reading, queue: MessageQueue) -> None:
    """Pull once, so that a filter or group that the broker refuses fails at the start."""
    link = reading.cluster.link_to(queue.topic, queue.broker_name)
    header = reading.header(queue, reading.cluster.min_offset(queue), 1)
    response = link.ask(RequestCode.PULL_MESSAGE, header)
    if response.code not in PULL_CODES:
        raise refusal_of(response, f"broker {link.address}")


def mean_record_size(reading: Reading, wanted: list[Range]) -> float:
    """Estimate the size of a record from one pull at the start of each range."""
    size = count = 0
    for each in wanted:
        link = reading.cluster.link_to(each.queue.topic, each.queue.broker_name)
        response = link.ask(
            RequestCode.PULL_MESSAGE, reading.header(each.queue, each.start, each.count)
        )
        if response.code == ResponseCode.SUCCESS:
            size += len(response.body)
            count += len(records_of_pull(response.body))
    return size / count if count else 1.0
