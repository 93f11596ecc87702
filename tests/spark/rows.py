"""A simple model of rows, and a Hypothesis strategy for stored messages."""

from typing import Any

from hypothesis import strategies as some

from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.records.compression import compress, decompress
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import StoredMessage, pack_record
from cometmq.protocol.records.message_id import OffsetId

NEEDS = "needs the spark extra: pip install 'cometmq[spark]'"
_INT64 = range(-(2**63), 2**63)


def row_of(stored: StoredMessage, broker_name: str) -> dict[str, Any]:
    """Return the expected row of a stored message."""
    properties = stored.properties
    offset_id = str(OffsetId(stored.store_host, stored.physical_offset))
    return {
        "topic": stored.topic,
        "brokerName": broker_name,
        "queueId": stored.queue_id,
        "queueOffset": stored.queue_offset,
        "msgId": properties.get("UNIQ_KEY") or offset_id,
        "body": decompress(stored.body, stored.sys_flag, 1 << 20),
        "tags": properties.get("TAGS"),
        "keys": properties.get("KEYS", "").split(),
        "properties": list(properties.items()),
        "flag": stored.flag,
        "bornTimestamp": _micros(stored.born_ms),
        "storeTimestamp": _micros(stored.stored_ms),
        "bornHost": str(stored.born_host),
        "storeHost": str(stored.store_host),
        "reconsumeTimes": stored.reconsume_times,
    }


def _micros(milliseconds: int) -> int | None:
    return milliseconds * 1000 if milliseconds * 1000 in _INT64 else None


_int32 = some.integers(-(2**31), 2**31 - 1)
_times_ms = some.integers(-(2**63), 2**63 - 1)
_hosts = some.sampled_from(["10.0.0.1", "192.168.7.250", "fe80::17", "2001:db8::1:0:1"])
_letters = some.characters(codec="utf-8", exclude_characters="\x01\x02")
_texts = some.text(_letters, max_size=12)
_names = some.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "a", "é"]) | _texts
_items = some.tuples(_names, _texts).map("\x01".join) | some.text(max_size=8)
_kinds = some.sampled_from([None, MessageFlag.ZLIB, MessageFlag.LZ4, MessageFlag.ZSTD, 0])
_states = some.sampled_from([0, 4, 8, 12])


@some.composite
def messages(draw: Any) -> StoredMessage:
    """Generate any message that a log may contain."""
    body, kind = draw(some.binary(max_size=200)), draw(_kinds)
    sys_flag = draw(_states)
    if kind is not None:
        sys_flag |= MessageFlag.COMPRESSED | kind
        body = compress(body, MessageFlag(kind) or MessageFlag.ZLIB)
    return StoredMessage(
        topic=draw(some.sampled_from(["orders", "orders", "%RETRY%group", "t"])),
        queue_id=draw(_int32),
        queue_offset=draw(some.integers(0, 2**63 - 1)),
        flag=draw(_int32),
        sys_flag=int(sys_flag),
        born_ms=draw(_times_ms),
        born_host=Host(draw(_hosts), draw(some.integers(0, 65535))),
        stored_ms=draw(_times_ms),
        store_host=Host(draw(_hosts), 10911),
        reconsume_times=draw(_int32),
        prepared_offset=draw(some.integers(0, 2**40)),
        body=body,
        properties_text="\x02".join(draw(some.lists(_items, max_size=6))),
    )


def packed(stored: list[StoredMessage], base: int = 0) -> list[bytes]:
    """Return consecutive records that start at a log offset."""
    records = []
    for message in stored:
        fields = {name: getattr(message, name) for name in message.__struct_fields__}
        records.append(pack_record(StoredMessage(**fields | {"physical_offset": base})))
        base += len(records[-1])
    return records
