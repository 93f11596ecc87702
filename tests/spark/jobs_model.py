"""Simple models of jobs, and messages with chosen event times."""

from collections import Counter

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.send import SendHeaderV2
from spark.sender import Sender


def is_picture(path):
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 5000


def closed_windows(runs, window_s, watermark_s):
    """Return the counts of closed windows, by their start, after runs of several batches.

    Like Spark, a batch uses the watermark of the previous batch, and each run ends with an empty
    batch that closes windows.
    """
    model, passed, before = Counter(), 0, 0
    for batches in runs:
        for batch in batches:
            for second in batch:
                if second // window_s * window_s + window_s > before:
                    model[second // window_s * window_s] += 1
            before, passed = passed, max(passed, max(batch) - watermark_s)
        before = passed
    return {start: count for start, count in model.items() if start + window_s <= passed}


class Events:
    """Sends messages with a chosen event time and number of attempts."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def send(self, topic, second, *, properties="", attempts=0):
        header = SendHeaderV2(
            producer_group="senders", topic=topic, default_topic="TBW102",
            default_topic_queue_nums=4, queue_id=0, sys_flag=0, born_timestamp=second * 1000,
            flag=0, properties=properties, reconsume_times=attempts, unit_mode=False,
            max_reconsume_times=None, batch=False,
        )  # fmt: skip
        self._sender.ask(RequestCode.SEND_MESSAGE_V2, header, b"%d" % second)
