"""What Apache's client classes say, and random groups and topics to ask about."""

import json
import random
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from cometmq.client.consumer.shared import allocate
from cometmq.protocol.bodies.queues import MessageQueue
from peers.driver import run_java

_ANSWER_S_MAX = 240
_NOT_A_MEMBER = "10.0.0.9@nobody"
_IDS = ["10.0.0.{}@{}#{}", "room{}@host{}@{}", "é{}@消息{}@{}", "😀{}@x{}@{}"]
_BROKERS = [
    "broker-a", "broker-b", "room0@a", "room1@b", "room2@c", "@d", "room0@", "a@b@c", "消息",
    "😀", "\uff5e",
]  # fmt: skip

DEFAULTS = (
    "ClientConfig", "DefaultMQProducer", "TransactionMQProducer", "DefaultMQPushConsumer",
    "DefaultLitePullConsumer",
)  # fmt: skip
HASHED: list[str | int] = [
    "", "a", "user-42", "polygenelubricants", "é消息😀", "x" * 300, 0, 1, -1, 7, 2**31 - 1,
    -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 12345678901,
]  # fmt: skip
CLIENT_IDS = [
    {"ip": "10.0.0.1", "instance": "DEFAULT", "unit": None, "stream": False},
    {"ip": "10.0.0.1", "instance": "77#123", "unit": "unit-a", "stream": False},
    {"ip": "10.0.0.1", "instance": "a", "unit": " ", "stream": True},
    {"ip": "fe80::1", "instance": "a", "unit": "u", "stream": True},
]


def ask(
    questions: Iterable[dict[str, Any]], properties: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """The answers of ClientOracle.java, one for each question."""
    asked = list(questions)
    with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".jsonl") as file:
        file.writelines(json.dumps(question) + "\n" for question in asked)
        file.flush()
        answers = run_java("ClientOracle", file.name, timeout=_ANSWER_S_MAX, properties=properties)
    assert len(answers) == len(asked), "an answer for each question"
    return answers


def golden_entries() -> list[dict[str, Any]]:
    """What to keep of it, for where there is no Java."""
    sharing = [each for seed in (1, 3, 5) for each in Groups(seed).questions(1)]
    hashes = [{"ask": "hash", "key": key, "queues": 7} for key in HASHED]
    ids = [{"ask": "client_id", **each} for each in CLIENT_IDS]
    defaults = [{"ask": "defaults", "class": name} for name in DEFAULTS]
    questions = [*sharing, *hashes, *ids, *defaults]
    return [
        {"name": f"{question['ask']}/{rank}", "value": {**question, "answer": answer}}
        for rank, (question, answer) in enumerate(zip(questions, ask(questions), strict=True))
    ]


class Groups:
    """Random topics and groups, with every strategy."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def questions(self, count: int) -> list[dict[str, Any]]:
        """So many topics and groups, each shared by each strategy."""
        return [each for _ in range(count) for each in self._of_a_group()]

    def _of_a_group(self) -> list[dict[str, Any]]:
        queues = self._queues()
        clients = self._clients()
        asked = [_NOT_A_MEMBER, *self._random.sample(clients, min(4, len(clients)))]
        return [
            {
                "ask": "allocate",
                "strategy": strategy,
                "queues": [[queue.topic, queue.broker_name, queue.queue_id] for queue in queues],
                "clients": clients,
                "members": asked,
            }
            for strategy in self._strategies(queues)
            if strategy["kind"] != "NEARBY" or all(_room(queue.broker_name) for queue in queues)
        ]

    def _queues(self) -> list[MessageQueue]:
        brokers = self._random.sample(_BROKERS, self._random.randint(1, 4))
        topic = self._random.choice(["orders", "%RETRY%g", "消息"])
        return [
            MessageQueue(topic, broker, queue_id)
            for broker in brokers
            for queue_id in range(self._random.randint(1, 12))
        ]

    def _clients(self) -> list[str]:
        clients = {
            self._random.choice(_IDS).format(
                self._random.randrange(3), self._random.randrange(9), self._random.randrange(9**5)
            )
            for _ in range(self._random.choice([1, 2, 3, 5, 20]))
        }
        again = [client for client in sorted(clients) if self._random.random() < 0.02]
        return [*sorted(clients, reverse=True), *again]  # a broker's list may hold one twice

    def _strategies(self, queues: list[MessageQueue]) -> list[dict[str, Any]]:
        rooms = self._random.sample(["room0", "room1", "room2", "", "a"], 2)
        nodes = self._random.choice([1, 2, 10, 10, 50])
        some = self._random.sample(queues, self._random.randint(0, len(queues)))
        plain: list[dict[str, Any]] = [
            {"kind": "AVG"},
            {"kind": "AVG_BY_CIRCLE"},
            {"kind": "CONSISTENT_HASH", "nodes": nodes},
            {"kind": "MACHINE_ROOM", "rooms": rooms},
        ]
        chosen = [[queue.topic, queue.broker_name, queue.queue_id] for queue in some]
        nearby = [{"kind": "NEARBY", "inner": inner} for inner in plain[:3]]
        return [*plain, {"kind": "CONFIG", "queues": chosen}, *nearby]


def strategy_of(wanted: dict[str, Any]) -> allocate.Allocation:
    """Ours, of the words of a question."""
    match wanted:
        case {"kind": "AVG"}:
            return allocate.Averagely()
        case {"kind": "AVG_BY_CIRCLE"}:
            return allocate.AveragelyByCircle()
        case {"kind": "CONSISTENT_HASH", "nodes": nodes}:
            return allocate.ConsistentHash(nodes)
        case {"kind": "CONFIG", "queues": queues}:
            return allocate.ByConfig(tuple(MessageQueue(*triple) for triple in queues))
        case {"kind": "MACHINE_ROOM", "rooms": rooms}:
            return allocate.ByMachineRoom(frozenset(rooms))
        case {"inner": inner}:
            return allocate.MachineRoomNearby(
                strategy_of(inner), lambda queue: _room(queue.broker_name), _room
            )
    raise AssertionError(wanted)


def allocated(question: dict[str, Any]) -> dict[str, Any]:
    """Our answer to a question about a group, in the words of the oracle."""
    strategy = strategy_of(question["strategy"])
    queues = allocate.queues_in_order(MessageQueue(*triple) for triple in question["queues"])
    clients = allocate.clients_in_order(question["clients"])
    return {
        "name": strategy.name,
        "queues": [
            [
                [queue.topic, queue.broker_name, queue.queue_id]
                for queue in strategy.allocate(member, queues, clients)
            ]
            for member in question["members"]
        ],
    }


def _room(name: str) -> str:
    return name.split("@")[0]
