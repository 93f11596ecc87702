"""The loads of bench/broker.py: frames as Java clients send them, and how a broker takes them."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from measure import process_cpu_s
from raw_client import RawClient, request

from cometmq.protocol.bodies.heartbeat import ConsumerData, Heartbeat, Subscription
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers.offset import QueueHeader
from cometmq.protocol.headers.pull import PullHeader
from cometmq.protocol.headers.send import SendHeaderV2
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.names import BENCHMARK_TOPIC, DEFAULT_TOPIC
from cometmq.protocol.records.batch import pack_entries

TOPIC, QUEUES = "BenchTopic", 4
GROUP = "bench_consumer"
BATCH = PULLED = 32
PARKED_QUEUES = 1024  # of the benchmark topic, which every broker has
PARKED_MS = 40_000
REFUSED_MAX = 20  # of the pulls that wait
_counter = itertools.count()


def send(body: bytes, queue_id: int = 0) -> bytes:
    """One message, as DefaultMQProducer sends it."""
    n = next(_counter)
    header = _send_header(queue_id, _properties(n) + "\x02WAIT\x01true\x02TAGS\x01TagA")
    return request(RequestCode.SEND_MESSAGE_V2, header, body, n)


def send_batch(body: bytes, queue_id: int = 0) -> bytes:
    """BATCH messages in one request."""
    n = next(_counter)
    entries = [
        (0, body, (_properties(next(_counter)) + "\x02TAGS\x01TagA").encode()) for _ in range(BATCH)
    ]
    header = _send_header(queue_id, "WAIT\x01true", batch=True)
    return request(RequestCode.SEND_BATCH_MESSAGE, header, pack_entries(entries), n)


def pull(queue_id: int, offset: int, topic: str = TOPIC) -> bytes:
    """As a push consumer pulls, whose subscription is known from its heartbeat."""
    header = PullHeader(
        consumer_group=GROUP,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=PULLED,
        sys_flag=int(PullFlag.SUSPEND | PullFlag.COMMIT_OFFSET),
        commit_offset=offset,
        suspend_timeout_millis=PARKED_MS,
        sub_version=1,
        expression_type="TAG",
    )
    return request(RequestCode.PULL_MESSAGE, header, opaque=next(_counter))


def introduce(client: RawClient) -> None:
    """The heartbeat of a consumer."""
    topics = (TOPIC, BENCHMARK_TOPIC)
    subscriptions = [Subscription(topic=topic, sub_version=1) for topic in topics]
    data = ConsumerData(group_name=GROUP, subscription_data_set=subscriptions)
    client.ask(
        RequestCode.HEART_BEAT, None, dumps(Heartbeat(client_id="bench", consumer_data_set=[data]))
    )


def _send_header(queue_id: int, properties: str, *, batch: bool = False) -> SendHeaderV2:
    return SendHeaderV2(
        producer_group="bench_producer",
        topic=TOPIC,
        default_topic=DEFAULT_TOPIC,
        default_topic_queue_nums=QUEUES,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=time.time_ns() // 1_000_000,
        flag=0,
        properties=properties,
        reconsume_times=0,
        max_reconsume_times=0,
        batch=batch,
        broker_name="broker-a",
    )


def _properties(n: int) -> str:
    return f"KEYS\x01order{n:08}\x02UNIQ_KEY\x017F00000100002A139A551234{n:08X}"


@dataclass(frozen=True, slots=True)
class Taken:
    """How a broker took a load."""

    rate: float  # messages a second
    cpu_us: float  # of the broker, each
    refused: int  # requests

    def __str__(self) -> str:
        text = f"{self.rate:9,.0f}/s {self.cpu_us:7.1f} us"
        return text + f" {self.refused} refused" if self.refused else text


def take(
    pid: int, client: RawClient, frames: Sequence[bytes], in_flight: int, messages: int = 1
) -> Taken:
    """Load a broker with frames of so many messages each."""
    cpu_before, begun = process_cpu_s(pid), time.perf_counter()
    good = client.flood(frames, in_flight)
    spent, cpu = time.perf_counter() - begun, process_cpu_s(pid) - cpu_before
    taken = good * messages
    assert taken, "every request was refused"
    return Taken(taken / spent, cpu / taken * 1e6, len(frames) - good)


def best(runs: Sequence[Taken]) -> Taken:
    """Of several runs, by CPU: what else the machine does makes them only worse."""
    return min(runs, key=lambda run: run.cpu_us)


def arrival_ms(port: int, samples: int) -> list[float]:
    """From a send to the answer of a pull that waits for it, sorted."""
    sender, puller = RawClient(port), RawClient(port)
    introduce(puller)
    times: list[float] = []
    refused = 0
    while len(times) < samples:
        puller.write(pull(0, int(end_of(sender, 0))))
        frame = send(b"x" * 128)
        time.sleep(0.003)  # nothing tells that a pull waits
        begun = time.perf_counter()
        sender.write(frame)
        if puller.answered(1):
            times.append((time.perf_counter() - begun) * 1e3)
        else:  # Apache's does, now and then; the next pull asks again
            refused += 1
            assert refused <= REFUSED_MAX, f"{refused} pulls were refused"
        assert sender.answered(1) == 1
    sender.close()
    puller.close()
    return sorted(times)


def end_of(client: RawClient, queue_id: int) -> str:
    header = QueueHeader(topic=TOPIC, queue_id=queue_id)
    return client.ask(RequestCode.GET_MAX_OFFSET, header).ext_fields["offset"]


def parked_cpu(pid: int, port: int, count: int, connections: int, seconds: float) -> float:
    """Percent of a core that a broker takes while so many pulls wait."""
    clients = [RawClient(port) for _ in range(connections)]
    for client in clients:
        introduce(client)
        client.write(
            b"".join(
                pull(n % PARKED_QUEUES, 0, BENCHMARK_TOPIC) for n in range(count // connections)
            )
        )
    time.sleep(2)  # until all of them wait
    before = process_cpu_s(pid)
    time.sleep(seconds)
    percent = (process_cpu_s(pid) - before) / seconds * 100
    for client in clients:
        client.close()
    return percent


def percentile(times: Sequence[float], share: float) -> float:
    return times[min(int(len(times) * share), len(times) - 1)]
