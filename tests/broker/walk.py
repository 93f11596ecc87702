"""A good request of every code, and the ways to spoil one, field by field."""

from typing import NamedTuple

import msgspec
from msgspec.inspect import BoolType, IntType, NoneType, StrType, UnionType, type_info

from batch_entries import BatchEntry, pack_batch
from broker.whole import consumer_beat
from cometmq.protocol.bodies.heartbeat import CheckClient
from cometmq.protocol.bodies.queues import LockQueues, MessageQueue
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.filter.tags import subscription_of
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.records.properties import encode_properties

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
LONG_NAME = "n" * 300
STRANGE_TEXTS = {
    "empty": "", "blank": " ", "path": "../../etc/passwd", "long": LONG_NAME, "zero": "a\0b",
    "separator": "T@G", "control": "a\x01b\x02c", "unpaired": "a\ud800",
}  # fmt: skip
GARBAGE = {
    "none": b"", "text": b"garbage", "bytes": bytes(range(256)), "null": b"null", "list": b"[]",
    "number": b"12", "open": b'{"a":', "deep": b'{"a":' * 5_000, "unfit": b'{"groupName":{}}',
}  # fmt: skip


class Case(NamedTuple):
    """A spoiled request: which field, by our name, and how; `told` stands in its refusal."""

    field: str
    how: str
    fields: dict[str, str]
    body: bytes
    told: str | None = None


_SEND = {
    "producerGroup": "P", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
    "queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": "",
    "reconsumeTimes": "0", "unitMode": "false", "maxReconsumeTimes": "16", "batch": "false",
    "bname": "broker-a",
}  # fmt: skip
_SEND_V2 = dict(zip("abcdefghijklmn", _SEND.values(), strict=True))
_REPLY = encode_properties({"REPLY_TO_CLIENT": "p1"})
_QUEUE = {"topic": "T", "queueId": "0", "bname": "broker-a"}
_LOCK = dumps(LockQueues(client_id="c1", consumer_group="G", mq_set=[MessageQueue("T", "b", 0)]))
_BATCH = pack_batch([BatchEntry(body=b"one"), BatchEntry(body=b"three"), BatchEntry(body=b"")])
_CHECK = CheckClient(client_id="c1", group="G", subscription_data=subscription_of("T", "a||b"))


def good_requests(half_place, half_offset, given_up_id, message_id):
    """By code: fields and body of a request that is answered with success."""
    code = RequestCode
    return {
        code.SEND_MESSAGE: (_SEND, b"hello"),
        code.SEND_MESSAGE_V2: (_SEND_V2, b"hello"),
        code.SEND_BATCH_MESSAGE: (_SEND_V2 | {"m": "true"}, _BATCH),
        code.SEND_REPLY_MESSAGE: (_SEND | {"properties": _REPLY}, b"answer"),
        code.SEND_REPLY_MESSAGE_V2: (_SEND_V2 | {"i": _REPLY}, b"answer"),
        code.PULL_MESSAGE: (
            {
                "consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "0",
                "maxMsgNums": "32", "sysFlag": "5", "commitOffset": "1",
                "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
                "expressionType": "TAG", "bname": "broker-a",
            },
            b"",
        ),
        code.QUERY_MESSAGE: (
            {
                "topic": "T", "key": "k1", "maxNum": "5", "beginTimestamp": "0",
                "endTimestamp": str(INT64_MAX), "_UNIQUE_KEY_QUERY": "false",
            },
            b"",
        ),
        code.QUERY_CONSUMER_OFFSET: ({"consumerGroup": "G"} | _QUEUE, b""),
        code.UPDATE_CONSUMER_OFFSET: ({"consumerGroup": "G", "commitOffset": "2"} | _QUEUE, b""),
        code.UPDATE_AND_CREATE_TOPIC: (
            {
                "topic": "New", "defaultTopic": "TBW102", "readQueueNums": "4",
                "writeQueueNums": "4", "perm": "6", "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": "0", "order": "false",
            },
            b"",
        ),
        code.UPDATE_BROKER_CONFIG: ({}, b"traceOn=false"),
        code.SEARCH_OFFSET_BY_TIMESTAMP: (_QUEUE | {"timestamp": "1"}, b""),
        code.GET_MAX_OFFSET: (_QUEUE, b""),
        code.GET_MIN_OFFSET: (_QUEUE, b""),
        code.GET_EARLIEST_MSG_STORETIME: (_QUEUE, b""),
        code.VIEW_MESSAGE_BY_ID: ({"offset": "0"}, b""),
        code.HEART_BEAT: ({}, dumps(consumer_beat())),
        code.UNREGISTER_CLIENT: (
            {"clientID": "c1", "producerGroup": "P", "consumerGroup": "G"},
            b"",
        ),
        code.CONSUMER_SEND_MSG_BACK: (
            {
                "offset": "0", "group": "G", "delayLevel": "0", "originMsgId": "",
                "originTopic": "T", "unitMode": "false", "maxReconsumeTimes": "16",
                "bname": "broker-a",
            },
            b"",
        ),
        code.END_TRANSACTION: (
            {
                "producerGroup": "P", "tranStateTableOffset": str(half_offset),
                "commitLogOffset": str(half_place), "commitOrRollback": "8",
                "fromTransactionCheck": "false", "msgId": "x", "transactionId": "x",
                "bname": "broker-a",
            },
            b"",
        ),
        code.GET_CONSUMER_LIST_BY_GROUP: ({"consumerGroup": "G"}, b""),
        code.LOCK_BATCH_MQ: ({}, _LOCK),
        code.UNLOCK_BATCH_MQ: ({}, _LOCK),
        code.CHECK_CLIENT_CONFIG: ({}, dumps(_CHECK)),
        code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: ({}, dumps(GroupConfig(group_name="New"))),
        code.GET_TOPIC_STATS_INFO: ({"topic": "T"}, b""),
        code.GET_CONSUMER_CONNECTION_LIST: ({"consumerGroup": "G"}, b""),
        code.GET_PRODUCER_CONNECTION_LIST: ({"producerGroup": "P"}, b""),
        code.DELETE_SUBSCRIPTIONGROUP: ({"groupName": "G", "removeOffset": "true"}, b""),
        code.GET_CONSUME_STATS: ({"consumerGroup": "G", "topic": "T"}, b""),
        code.DELETE_TOPIC_IN_BROKER: ({"topic": "T"}, b""),
        code.INVOKE_BROKER_TO_RESET_OFFSET: (
            {"topic": "T", "group": "G", "timestamp": "0", "isForce": "true"},
            b"",
        ),
        code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (
            {"topic": "T", "group": "G", "clientAddr": "c1"},
            b"",
        ),
        code.QUERY_TOPIC_CONSUME_BY_WHO: ({"topic": "T"}, b""),
        code.QUERY_CONSUME_TIME_SPAN: ({"topic": "T", "group": "G"}, b""),
        code.GET_CONSUMER_RUNNING_INFO: (
            {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "false"},
            b"",
        ),
        code.QUERY_CORRECTION_OFFSET: (
            {"filterGroups": "X", "compareGroup": "G", "topic": "T"},
            b"",
        ),
        code.CONSUME_MESSAGE_DIRECTLY: (
            {"consumerGroup": "G", "clientId": "c1", "msgId": message_id, "brokerName": "b"},
            b"",
        ),
        code.CLONE_GROUP_OFFSET: (
            {"srcGroup": "G", "destGroup": "H", "topic": "T", "offline": "true"},
            b"",
        ),
        code.VIEW_BROKER_STATS_DATA: ({"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}, b""),
        code.GET_BROKER_CONSUME_STATS: ({"isOrder": "false"}, b""),
        code.QUERY_CONSUME_QUEUE: (
            {"topic": "T", "queueId": "0", "index": "0", "count": "10", "consumerGroup": "G"},
            b"",
        ),
        code.UPDATE_AND_CREATE_ACL_CONFIG: (
            {"accessKey": "RocketMQ", "secretKey": "12345678", "admin": "false"}, b"",
        ),
        code.DELETE_ACL_CONFIG: ({"accessKey": "RocketMQ"}, b""),
        code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: (
            {"globalWhiteAddrs": "10.0.0.*", "aclFileFullPath": "plain_acl.yml"}, b"",
        ),
        code.REGISTER_FILTER_SERVER: ({"filterServerAddr": "127.0.0.1:1"}, b""),
        code.REGISTER_MESSAGE_FILTER_CLASS: (
            {"consumerGroup": "G", "topic": "T", "className": "C", "classCRC": "0"},
            b"class C {}",
        ),
        code.RESUME_CHECK_HALF_MESSAGE: ({"msgId": given_up_id}, b""),
    }  # fmt: skip


# Requests that make what they name, by the wire name of that field.
MAKES = {
    RequestCode.PULL_MESSAGE: "consumerGroup",
    RequestCode.UPDATE_CONSUMER_OFFSET: "consumerGroup",
    RequestCode.CONSUMER_SEND_MSG_BACK: "group",
    RequestCode.SEND_MESSAGE: "topic",
    RequestCode.SEND_MESSAGE_V2: "b",
    RequestCode.SEND_BATCH_MESSAGE: "b",
}


def spoiled(header, fields, body):
    """Cases that follow from a header's own types, and from the body if there is one."""
    for field in type_info(header).fields:
        wire = field.encode_name
        if field.required:
            rest = {key: value for key, value in fields.items() if key != wire}
            yield Case(field.name, "missing", rest, body, wire)
        for how, value in _bad_values(field.type):
            told = wire if how.startswith("wrong") else None
            yield Case(field.name, how, fields | {wire: value}, body, told)
    if body:
        for how, other in GARBAGE.items():
            yield Case("body", how, fields, other)
        yield Case("body", "cut", fields, body[: len(body) // 2])
        yield Case("body", "cut late", fields, body[:-1])


def _bad_values(kind):
    """How it is spoiled, and the value."""
    if isinstance(kind, UnionType):
        kind = next(each for each in kind.types if not isinstance(each, NoneType))
    match kind:
        case IntType():
            most = kind.le
            for value in ("x", "1.5", str(most + 1), str(-most - 2), "", "true"):
                yield f"wrong {value!r}", value
            for value in dict.fromkeys((-1, -most - 1, INT32_MAX, most)):
                yield f"number {value}", str(value)
        case BoolType():
            for value in ("maybe", "2", "-1", ""):
                yield f"boolean {value!r}", value
        case StrType():
            for how, value in STRANGE_TEXTS.items():
                yield f"text {how}", value


def spoiled_bodies(code):
    """Bodies that can be read, and say what cannot be; and what their refusal must tell."""
    return [
        Case("body", f"unfit {number}", {}, body, told)
        for number, (body, told) in enumerate(_UNFIT.get(code, ()))
    ]


def _beat(*groups, **changes):
    data = [{"groupName": group, **changes} for group in groups]
    return msgspec.json.encode({"clientID": "c9", "consumerDataSet": data})


def _lock(**changes):
    queue = {"topic": "T", "brokerName": "broker-a", "queueId": 0} | changes
    return msgspec.json.encode({"consumerGroup": "G", "clientId": "c9", "mqSet": [queue]})


def _check(**changes):
    subscription = {"topic": "T", "subString": "a > 1", "expressionType": "SQL92"} | changes
    return msgspec.json.encode({"clientId": "c9", "group": "G", "subscriptionData": subscription})


def _group(**changes):
    return msgspec.json.encode({"groupName": "New"} | changes)


_UNFIT = {
    RequestCode.HEART_BEAT: [
        (b"{}", "clientID"),
        (_beat("Fresh", "../x"), "group"),
        (_beat("Fresh", LONG_NAME), "group"),
        (_beat("Fresh", "g" * 125), "topic"),  # its retry topic would be too long
        (_beat("Fresh", ""), "group"),
        (_beat("Fresh", messageModel="NONE"), "messageModel"),
        (_beat("Fresh", consumeType=99), "consumeType"),
        (_beat("Fresh", subscriptionDataSet=7), "subscriptionDataSet"),
        (_beat("Fresh", subscriptionDataSet=[{"codeSet": [2**40]}]), "codeSet"),
        (_beat("Fresh", subscriptionDataSet=[{"subVersion": 2**70}]), "subVersion"),
        (b'{"clientID":"c9","producerDataSet":[{"groupName":"P2"},{"groupName":"/"}]}', "group"),
    ],
    RequestCode.LOCK_BATCH_MQ: [
        (_lock(queueId=2**40), "queueId"),
        (_lock(queueId="x"), "queueId"),
        (b'{"consumerGroup":"../x","clientId":"c9","mqSet":[]}', "group"),
        (b'{"consumerGroup":"G","mqSet":[]}', "clientId"),
    ],
    RequestCode.UNLOCK_BATCH_MQ: [(_lock(topic=[]), "topic"), (_lock(queueId="x"), "queueId")],
    RequestCode.CHECK_CLIENT_CONFIG: [
        (_check(subString="a >"), "character 4"),
        (_check(subString="(" * 5_000), "parse"),
        (_check(expressionType="XPATH"), "XPATH"),
        (_check(classFilterMode=True), "filter classes"),
        (_check(codeSet="x"), "codeSet"),
    ],
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: [
        (_group(groupName="../x"), "group"),
        (_group(groupName=LONG_NAME), "group"),
        (_group(groupName=""), "group"),
        (_group(retryQueueNums=-1), "retryQueueNums"),
        (_group(retryQueueNums=INT32_MAX), "retryQueueNums"),
        (_group(retryMaxTimes=-2), "retryMaxTimes"),
        (_group(retryMaxTimes=2**40), "retryMaxTimes"),
        (_group(brokerId=-1), "brokerId"),
        (_group(consumeEnable="perhaps"), "consumeEnable"),
    ],
    RequestCode.UPDATE_BROKER_CONFIG: [
        (b"storePathRootDir=/elsewhere", "storePathRootDir"),
        (b"listenPort=1", "listenPort"),
        (b"mappedFileSizeCommitLog=4096", "mappedFileSizeCommitLog"),
        (b"deleteWhen=24", "deleteWhen"),
        (b"fileReservedTime=-1", "fileReservedTime"),
        (b"flushDiskType=NO_FLUSH", "flushDiskType"),
        (b"traceOn=false\nnobodyKnows=1", "nobodyKnows"),
        (b"transactionCheckMax=-1", "transactionCheckMax"),
        (b"transactionCheckMax=soon", "transactionCheckMax"),
        (b"regionId=\xff\xfe", "UTF-8"),
    ],
}
