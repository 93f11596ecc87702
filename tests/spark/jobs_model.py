"""Plain models of what jobs do, and messages that say when they happened."""

from collections import Counter

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.send import SendHeaderV2
from spark.sender import Sender


def is_picture(path):
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 5000


def closed_windows(runs, window_s, watermark_s):
    """Counts by start of window, of those that are closed at the end of runs of some batches.

    As Spark does it: what is late is judged by the watermark that was known when the batch before
    began, and a run ends with a batch of nothing, which closes what can be closed.
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
    """Messages with a time of their own and, if wanted, a number of attempts."""

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
