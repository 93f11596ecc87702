"""What a case finds on a server, and what it leaves there, read over the wire."""

import asyncio
import re
from typing import Any

import msgspec

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.java.fastjson import standard_json
from cometmq.protocol.records.message import StoredMessage, unpack_records
from compat.differential.requests import named
from compat.differential.wire import Answer, Connection, Request

_CODE = RequestCode
PATIENCE_S = 30.0
READER = "differential_reader"
_LARGE = 64 << 10
SHARED_TOPICS = (  # with messages of many cases, which tell whose they are
    "SCHEDULE_TOPIC_XXXX",
    "OFFSET_MOVED_EVENT", "TRANS_CHECK_MAX_TIME_TOPIC", "DefaultCluster_REPLY_TOPIC", "TBW102",
    "BenchmarkTest", "broker-a", "DefaultCluster", "rmq_sys_x", "RMQ_SYS_TRACE_TOPIC",
)  # fmt: skip
_NUMBER = re.compile(r"_(\d{5})(?!\d)")


def number_in(text: str) -> int | None:
    """The number of the case that a text names; the last one, if it also names what all share."""
    return max(map(int, _NUMBER.findall(text)), default=None)


def json_of(body: bytes) -> Any:
    """A JSON body in either dialect; None if it is none."""
    try:
        return msgspec.json.decode(standard_json(body.decode()))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
        return None


async def ask(link: Connection, code: int, fields: dict[str, object], body: bytes = b"") -> Answer:
    """A request that is answered on both servers."""
    return await link.ask(Request(code, fields, body), PATIENCE_S)


async def furnish(link: Connection, number: int, *, half: bool) -> dict[str, str]:
    """A topic with two messages, a consumer and a producer, an offset, perhaps a half message."""
    topic, group = named("T", number), named("G", number)
    created = await ask(link, _CODE.UPDATE_AND_CREATE_TOPIC, {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2",
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    })  # fmt: skip
    assert created.code == 0, created
    sent = []
    for key in ("k1", "k2"):
        properties = f"KEYS\x01{key}\x02TAGS\x01a\x02UNIQ_KEY\x01{named('U', number)}{key}"
        sent.append(await _send(link, topic, properties))
    place = str(int(sent[0].fields["msgId"][-16:], 16))
    texts = {"place": place, "message_id": sent[0].fields["msgId"]}
    if half:
        prepared = await _send(link, topic, f"TRAN_MSG\x01true\x02PGROUP\x01{named('P', number)}")
        texts["half_place"] = str(int(prepared.fields["msgId"][-16:], 16))
        texts["half_offset"] = prepared.fields["queueOffset"]
    if not number:  # the log is longer than any number that the bytes of a record may say
        await _send(link, topic, "", bytes(_LARGE), 1)
    await beat(link, number)
    for queue_id, offset in (("0", "1"), ("1", "0")):
        await ask(link, _CODE.UPDATE_CONSUMER_OFFSET, {
            "consumerGroup": group, "topic": topic, "queueId": queue_id, "commitOffset": offset,
        })  # fmt: skip
    async with asyncio.timeout(PATIENCE_S):
        while (await _end(link, topic, 0)) < 2:
            await asyncio.sleep(0.01)
    return texts


async def beat(link: Connection, number: int) -> None:
    """A heartbeat of the consumer and producer of a case."""
    topic, group = named("T", number), named("G", number)
    data = {
        "clientID": named("c1", number),
        "producerDataSet": [{"groupName": named("P", number)}],
        "consumerDataSet": [{
            "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "unitMode": False,
            "subscriptionDataSet": [{
                "topic": topic, "subString": "*", "subVersion": 1, "tagsSet": [], "codeSet": [],
                "expressionType": "TAG", "classFilterMode": False,
            }],
        }],
    }  # fmt: skip
    assert (await ask(link, _CODE.HEART_BEAT, {}, msgspec.json.encode(data))).code == 0


async def _send(
    link: Connection, topic: str, properties: str, body: bytes = b"hello", queue_id: int = 0
) -> Answer:
    fields = dict(zip("abcdefghij", (
        "furnisher", topic, "TBW102", "4", str(queue_id), "0", "1700000000000", "0", properties,
        "0",
    ), strict=True))  # fmt: skip
    answer = await ask(link, _CODE.SEND_MESSAGE_V2, dict(fields), body)
    assert answer.code == 0, answer
    return answer


async def _end(link: Connection, topic: str, queue_id: int) -> int:
    fields: dict[str, object] = {"topic": topic, "queueId": str(queue_id)}
    answer = await ask(link, _CODE.GET_MAX_OFFSET, fields)
    return int(answer.fields.get("offset", -1))


async def queues_of(link: Connection, topic: str) -> Any:
    """Bounds of each queue, and the messages in it; None if there is no such topic."""
    stats = await ask(link, _CODE.GET_TOPIC_STATS_INFO, {"topic": topic})
    table = json_of(stats.body)
    if stats.code != 0 or not table:
        return f"{stats.kind}, code {stats.code}"
    found = {}
    for key, bounds in table["offsetTable"].items():
        queue_id = msgspec.json.decode(key)["queueId"]
        first, end = bounds["minOffset"], bounds["maxOffset"]
        if end > first:
            found[queue_id] = (first, end, await messages_of(link, topic, queue_id, first, end))
    return found


async def messages_of(
    link: Connection, topic: str, queue_id: int, first: int, end: int
) -> list[Any]:
    """The messages of a queue between two offsets, or the code that a pull of them got."""
    found: list[Any] = []
    while first < end:
        answer = await ask(link, _CODE.PULL_MESSAGE, {
            "consumerGroup": READER, "topic": topic, "queueId": str(queue_id),
            "queueOffset": str(first), "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
            "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
        })  # fmt: skip
        if answer.code != 0:
            return [*found, f"code {answer.code}"]
        found += map(shown, unpack_records(answer.body))
        first = int(answer.fields["nextBeginOffset"])
    return found


def shown(message: StoredMessage) -> dict[str, Any]:
    """What of a message is the same on both servers."""
    body = message.body
    return {
        "topic": message.topic, "queue": message.queue_id, "offset": message.queue_offset,
        "flag": message.flag, "sysFlag": message.sys_flag, "born": message.born_ms,
        "times": message.reconsume_times, "body": body if len(body) < 2000 else len(body),
        "properties": message.properties,
    }  # fmt: skip


class Tables:
    """The tables of a server, by the number of the case that each entry belongs to."""

    def __init__(self) -> None:
        self.entries: dict[int, dict[str, Any]] = {}
        self.shared: dict[int, list[Any]] = {}
        self._ends: dict[tuple[str, int], int] = {}

    async def read(self, link: Connection) -> None:
        """Topics, groups and offsets."""
        self.entries = {}
        topics = json_of((await ask(link, _CODE.GET_ALL_TOPIC_CONFIG, {})).body)
        groups = json_of((await ask(link, _CODE.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {})).body)
        offsets = json_of((await ask(link, _CODE.GET_ALL_CONSUMER_OFFSET, {})).body)
        for kind, table in (
            ("topic", topics["topicConfigTable"]),
            ("group", groups["subscriptionGroupTable"]),
            ("offset", offsets["offsetTable"]),
        ):
            for name, entry in table.items():
                number = number_in(name)
                if number is not None:
                    self.entries.setdefault(number, {})[f"{kind} {name}"] = entry

    async def read_shared(self, link: Connection) -> None:
        """Messages in topics that several cases write to."""
        self.shared = {}
        for topic in SHARED_TOPICS:
            stats = await ask(link, _CODE.GET_TOPIC_STATS_INFO, {"topic": topic})
            if stats.code != 0:
                continue
            for key, bounds in json_of(stats.body)["offsetTable"].items():
                queue_id = msgspec.json.decode(key)["queueId"]
                first = self._ends.get((topic, queue_id), bounds["minOffset"])
                found = await messages_of(link, topic, queue_id, first, bounds["maxOffset"])
                self._ends[topic, queue_id] = bounds["maxOffset"]
                for each in found:
                    number = number_in(str(each))
                    if number is not None:
                        self.shared.setdefault(number, []).append(each | {"offset": "any"})
