"""A good request of every code, and cases beyond single fields: properties and batch bodies."""

from collections.abc import Iterator
from dataclasses import replace

from batch_entries import BatchEntry, pack_batch
from broker.walk import good_requests
from cometmq.protocol.codes import RequestCode
from compat.differential.requests import Case, Fields, batch_entry

_CODE = RequestCode


def broker_requests() -> dict[int, tuple[Fields, bytes]]:
    """By code: fields and body. The names in them get the number of their case."""
    found: dict[int, tuple[Fields, bytes]] = {
        code: (dict(fields), body)
        for code, (fields, body) in good_requests(
            "{half_place}", "{half_offset}", "{message_id}", "{message_id}"
        ).items()
    }
    found[_CODE.SEND_BATCH_MESSAGE] = (
        found[_CODE.SEND_BATCH_MESSAGE][0] | {"m": "true"},
        pack_batch([BatchEntry(body=b"one"), BatchEntry(body=b"three")]),
    )
    for code, name in (
        (_CODE.SEND_REPLY_MESSAGE, "properties"),
        (_CODE.SEND_REPLY_MESSAGE_V2, "i"),
    ):
        fields, body = found[code]
        found[code] = (fields | {name: "REPLY_TO_CLIENT\x01#c1"}, body)
    found[_CODE.UPDATE_BROKER_CONFIG] = ({}, b"traceOn=true")
    for code in (_CODE.VIEW_MESSAGE_BY_ID, _CODE.CONSUMER_SEND_MSG_BACK):
        fields, body = found[code]
        found[code] = (fields | {"offset": "{place}"}, body)
    return found


_PROPERTIES = {
    "no name": "\x01v", "no value": "k\x01", "no separator": "garbage", "twice": "k\x011\x02k\x012",
    "separator at the end": "k\x01v\x02", "only separators": "\x02\x02\x01\x02",
    "separator in a value": "k\x01a\x01b", "WAIT true": "WAIT\x01true\x02k\x01v",
    "WAIT false": "k\x01v\x02WAIT\x01false", "WAIT other": "WAIT\x01x", "CLUSTER": "CLUSTER\x01x",
    "KEYS": "KEYS\x01a b  c", "UNIQ_KEY": "UNIQ_KEY\x01u1", "TAGS": "TAGS\x01t",
    "CJK": "k\x01\u4e2d",
    "astral": "k\x01\U0001f600", "DELAY 0": "DELAY\x010", "DELAY 1": "DELAY\x011",
    "DELAY 18": "DELAY\x0118", "DELAY 19": "DELAY\x0119", "DELAY -1": "DELAY\x01-1",
    "DELAY x": "DELAY\x01x", "DELAY max": "DELAY\x012147483647",
    "DELAY 2^31": "DELAY\x012147483648",
    "half": "TRAN_MSG\x01true\x02PGROUP\x01P", "half without group": "TRAN_MSG\x01true",
    "half TRUE": "TRAN_MSG\x01TRUE", "half no": "TRAN_MSG\x01false",
    "half delayed": "TRAN_MSG\x01true\x02DELAY\x012",
    "real topic": "REAL_TOPIC\x01x\x02REAL_QID\x015",
    "retry topic": "RETRY_TOPIC\x01x", "born host": "bornHost\x011.2.3.4",
    "region": "MSG_REGION\x01x\x02TRACE_ON\x01false", "long": "k\x01" + "v" * 32_000,
    "too long": "k\x01" + "v" * 32_760, "far too long": "k\x01" + "v" * 70_000,
    "dispatch": "INNER_MULTI_DISPATCH\x01a,b",
}  # fmt: skip


def property_cases() -> Iterator[Case]:
    """Sends with all kinds of properties."""
    good = broker_requests()
    for code, name in ((_CODE.SEND_MESSAGE_V2, "i"), (_CODE.SEND_BATCH_MESSAGE, "i")):
        fields, body = good[code]
        for how, text in _PROPERTIES.items():
            yield Case(code, "i", f"properties: {how}", fields | {name: text}, body)
    fields, body = good[_CODE.SEND_MESSAGE_V2]
    for flag in (1, 2, 4, 8, 12, 16, 32, 64, 128, 256, 1 << 30):
        yield Case(_CODE.SEND_MESSAGE_V2, "f", f"bit {flag}", fields | {"f": str(flag)}, body)
    for topic in (
        "%RETRY%G", "%DLQ%G", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "TBW102",
        "RMQ_SYS_TRACE_TOPIC", "rmq_sys_x", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC",
        "BenchmarkTest",
        "broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC",
    ):  # fmt: skip
        for code in (_CODE.SEND_MESSAGE_V2, _CODE.SEND_BATCH_MESSAGE):
            fields, body = good[code]
            yield Case(code, "b", f"topic {topic}", fields | {"b": topic}, body)
    fields, body = good[_CODE.SEND_MESSAGE_V2]
    for default in ("TBW102", "Unknown", "T", ""):
        for count in ("-1", "0", "1", "5", "9", "2147483647"):
            changes = {"b": "Unknown", "c": default, "d": count}
            yield Case(
                _CODE.SEND_MESSAGE_V2, "c d", f"new topic like {default!r} with {count}",
                fields | changes, body,
            )  # fmt: skip
    for size in (0, 1, 4 << 20, (4 << 20) + 1):
        yield Case(_CODE.SEND_MESSAGE_V2, "body", f"size {size}", fields, bytes(size))


def batch_cases() -> Iterator[Case]:
    """Bodies of batches."""
    fields, _ = broker_requests()[_CODE.SEND_BATCH_MESSAGE]
    case = Case(_CODE.SEND_BATCH_MESSAGE, "body", "", fields)
    entry = batch_entry
    for how, text in _PROPERTIES.items():
        if len(text) < 40_000:
            body = entry(b"one", text.encode()) + entry(b"two", b"k\x01v")
            yield replace(case, how=f"inner properties: {how}", body=body)
    bodies = {
        "not UTF-8": entry(b"one", b"KEYS\x01\xff\xfe") + entry(b"two", b"\xff"),
        "size too small": entry(b"one", b"k\x01v", size=4) + entry(b"two", b""),
        "size 0": entry(b"one", b"k\x01v", size=0),
        "size -1": entry(b"one", b"k\x01v", size=-1),
        "size too large": entry(b"one", b"k\x01v", size=1 << 20),
        "magic": entry(b"one", b"", magic=7), "crc": entry(b"one", b"", crc=7),
        "flag": entry(b"one", b"", flag=7) + entry(b"two", b"", flag=-1),
        "body size -1": entry(b"one", b"", body_size=-1),
        "body size 0": entry(b"one", b"", body_size=0),
        "body size too large": entry(b"one", b"", body_size=1 << 20),
        "properties size -1": entry(b"one", b"k\x01v", properties_size=-1),
        "properties size 0": entry(b"one", b"k\x01v", properties_size=0),
        "properties size 1": entry(b"one", b"k\x01v", properties_size=1),
        "properties size too large": entry(b"one", b"k\x01v", properties_size=9),
        "empty bodies": entry(b"", b"") + entry(b"", b""),
        "one": entry(b"one", b""), "twenty zeros": bytes(20), "22 zeros": bytes(22),
        "rest of 1": entry(b"one", b"") + b"\0", "rest of 21": entry(b"one", b"") + bytes(21),
        "too large": entry(bytes((4 << 20) + 1), b""),
        "too large together": entry(bytes(3 << 20), b"") * 2,
    }  # fmt: skip
    for how, body in bodies.items():
        yield replace(case, how=how, body=body)


def pull_cases() -> Iterator[Case]:
    """Pulls with a filter of their own, or with that of their group."""
    fields, _ = broker_requests()[_CODE.PULL_MESSAGE]
    case = Case(_CODE.PULL_MESSAGE, "subscription", "", fields)
    for kind in ("TAG", "SQL92", "tag", "XPATH"):
        for text in ("*", "", "a", "b", "a||b", "||", "KEYS='k1'", "KEYS >", "(", "x IS NULL"):
            changes = {"expressionType": kind, "subscription": text}
            yield replace(case, how=f"{kind} {text!r}", fields=fields | changes)
    for flag in (0, 1, 2, 4, 6, 8, 12, 16):
        for offset in ("0", "1", "2", "3"):
            changes = {"sysFlag": str(flag), "queueOffset": offset, "suspendTimeoutMillis": "100"}
            how = f"flag {flag} at {offset}"
            yield replace(case, field="sysFlag", how=how, fields=fields | changes)
    for version in ("0", "1", "2"):
        changes = {"sysFlag": "0", "subVersion": version}
        yield replace(case, how=f"of its group, version {version}", fields=fields | changes)


def unit_mode_cases() -> Iterator[Case]:
    """New topics of sends in unit mode."""
    fields, body = broker_requests()[_CODE.SEND_MESSAGE_V2]
    for value in ("true", "1", "maybe"):
        for topic in ("Unknown", "%RETRY%G"):
            changes = {"b": topic, "k": value}
            yield Case(_CODE.SEND_MESSAGE_V2, "k", f"{topic} {value}", fields | changes, body)
