"""The parts of clients against Apache's own classes: the same input, the same answer."""

import time

import pytest

from cometmq.client.consumer.shared.offset_file import OffsetFile, offsets_path
from cometmq.client.message import Message
from cometmq.client.send.selectors import by_hash
from cometmq.client.unique_id import UniqueKeys
from cometmq.disk import RealDisk
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.seams import RealClock
from peers.clients import HASHED, Groups, allocated, ask

pytestmark = [
    pytest.mark.apache,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("apache_class_path"),
]

GROUPS = 400
MESSAGE = Message("orders", b"x")


@pytest.mark.parametrize("seed", [1, 2])
def test_every_strategy_gives_every_member_the_same_queues(seed):
    questions = Groups(seed).questions(GROUPS)
    answers = ask(questions)
    wrong = [
        (question, answer)
        for question, answer in zip(questions, answers, strict=True)
        if allocated(question) != answer
    ]
    assert not wrong[:3], f"{len(wrong)} of {len(questions)}"
    given = [queues for answer in answers for queues in answer["queues"] if queues]
    assert len(given) > 5 * GROUPS
    assert len({answer["name"] for answer in answers}) == 8


def test_queues_by_hash():
    questions = [
        {"ask": "hash", "key": key, "queues": count}
        for key in [*HASHED, *(f"user-{n}-é" for n in range(200)), *range(-3, 2**33, 2**26 + 1)]
        for count in (1, 7, 16)
    ]
    for question, answer in zip(questions, ask(questions), strict=True):
        queues = [MessageQueue("topic", "broker", n) for n in range(question["queues"])]
        assert by_hash(queues, MESSAGE, question["key"]).queue_id == answer["queue"], question


def test_java_reads_who_made_a_unique_key_and_when():
    before_ms = time.time_ns() // 1_000_000
    keys = [UniqueKeys(ip, RealClock())() for ip in (bytes([10, 1, 2, 3]), bytes(15) + b"\1")]
    after_ms = time.time_ns() // 1_000_000
    answers = ask([{"ask": "unique_key", "key": key} for key in keys])
    for key, answer in zip(keys, answers, strict=True):
        assert before_ms <= answer["timeMs"] <= after_ms
        assert f"{answer['pid'] & 0xFFFF:04X}" == key[-24:-20]
    assert answers[0]["ip"] == "10.1.2.3"
    assert answers[0]["length"] in (32, 56)


def test_offsets_go_from_our_file_to_java_and_back(tmp_path):
    queues = [MessageQueue("orders", "broker-a", n) for n in range(3)]
    path = offsets_path(tmp_path, "10.0.0.1@DEFAULT", "group")
    ours = OffsetFile(RealDisk(), path)
    for number, queue in enumerate(queues):
        ours.advance(queue, 100 + number)
    ours.save(queues)
    question = {
        "ask": "offsets", "client": "10.0.0.1@DEFAULT", "group": "group", "set": 55,
        "queues": [[queue.topic, queue.broker_name, queue.queue_id] for queue in queues[:2]],
    }  # fmt: skip
    (answer,) = ask([question], {"rocketmq.client.localOffsetStoreDir": str(tmp_path)})
    assert answer["offsets"] == [100, 101]
    again = OffsetFile(RealDisk(), path)
    again.load()
    assert [again.get(queue) for queue in queues] == [55, 55, None]  # it keeps those it saves
