"""The body with which a broker registers at a name server, in two formats.

JSON        {"filterServerList":[..],"topicConfigSerializeWrapper":{..}}
compressed  zlib of | size 4 | data version, JSON | count 4 | size 4 | topic | .. | size 4 |
            filter servers, JSON |, a topic being `name readQueues writeQueues perm filterType`
"""

import zlib
from collections.abc import Iterator

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.bodies.tables import DataVersion, TopicConfig, TopicConfigTable
from cometmq.protocol.java.fastjson import Body, dumps, loads, reshape
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import INFLATED_SIZE_MAX, TOPICS_MAX
from cometmq.protocol.records.compression import inflate


class RegisterBroker(Body, rename=camel(topics="topicConfigSerializeWrapper")):
    """The topics and filter servers of a broker. None differs from an empty list."""

    filter_server_list: list[str] | None = None
    topics: TopicConfigTable = TopicConfigTable()


def encode_register(body: RegisterBroker, *, compressed: bool = False) -> bytes:
    """Encode the body, in the format that `compressed` of the header announces."""
    if not compressed:
        return dumps(body)
    topics = body.topics.topic_config_table.values()
    parts = [_sized(dumps(body.topics.data_version)), len(topics).to_bytes(4)]
    parts += (_sized(_topic_line(topic).encode()) for topic in topics)
    parts.append(_sized(dumps(body.filter_server_list)))
    return zlib.compress(b"".join(parts), zlib.Z_BEST_COMPRESSION)


def decode_register(data: bytes, *, compressed: bool = False) -> RegisterBroker:
    """The inverse of `encode_register`."""
    if not compressed:
        body = loads(data, RegisterBroker)
        _check_count(len(body.topics.topic_config_table))
        return body
    parts = _parts(inflate(data, INFLATED_SIZE_MAX))
    version = loads(next(parts), DataVersion)
    topics = [_parse_topic(line) for line in _counted(parts)]
    servers = next(parts)
    return RegisterBroker(
        filter_server_list=None if servers == b"null" else loads(servers, list[str]),
        topics=TopicConfigTable(
            data_version=version, topic_config_table={topic.topic_name: topic for topic in topics}
        ),
    )


def _check_count(topics: int) -> None:
    if topics > TOPICS_MAX:
        raise TooLarge(f"{topics} topics in a register body, the limit is {TOPICS_MAX}")


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(4) + part


def _parts(data: bytes) -> Iterator[bytes]:
    """Version, count, topics, filter servers; each but the count is preceded by its size."""
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        if size < 0 or at + size > len(data):
            raise Malformed(f"a register body of {len(data)} bytes needs {size} bytes at {at}")
        at += size
        return data[at - size : at]

    def take_int() -> int:
        return int.from_bytes(take(4), signed=True)

    yield take(take_int())
    count = take(4)
    _check_count(int.from_bytes(count))
    yield count
    for _ in range(int.from_bytes(count) + 1):
        yield take(take_int())


def _counted(parts: Iterator[bytes]) -> Iterator[bytes]:
    for _ in range(int.from_bytes(next(parts))):
        yield next(parts)


_TOPIC_LINE = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")


def _topic_line(topic: TopicConfig) -> str:
    return (
        f"{topic.topic_name} {topic.read_queue_nums} {topic.write_queue_nums} {topic.perm} "
        f"{topic.topic_filter_type}"
    )


def _parse_topic(line: bytes) -> TopicConfig:
    try:
        values = line.decode().split(" ")
        return reshape(dict(zip(_TOPIC_LINE, values, strict=True)), TopicConfig)
    except ValueError as error:
        raise Malformed(f"bad topic in a register body: {line[:80]!r}") from error
