"""Every row of the administrators' table with fields that are missing, wrong or extreme."""

import pytest

from broker.desk import at_desk
from cometmq.broker.handlers.admin_routes import declined_routes
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.remoting.dispatch import FAILED

GOOD = {
    "topic": "T", "group": "G", "consumerGroup": "G", "producerGroup": "P", "clientId": "c1",
    "queueId": "0", "index": "0", "count": "5", "key": "k", "maxNum": "5", "beginTimestamp": "0",
    "endTimestamp": "9000000000000", "offset": "0", "timestamp": "0", "isForce": "true",
    "isOrder": "false", "statsName": "TOPIC_PUT_NUMS", "statsKey": "T", "compareGroup": "G",
    "srcGroup": "G", "destGroup": "H", "groupName": "Q", "defaultTopic": "TBW102",
    "readQueueNums": "2", "writeQueueNums": "2", "perm": "6", "topicFilterType": "SINGLE_TAG",
    "order": "false", "msgId": "7F00000100002A9F0000000000000000", "filterServerAddr": "a:1",
    "defaultTopicQueueNums": "4", "sysFlag": "0", "bornTimestamp": "5", "flag": "0",
    "properties": "REPLY_TO_CLIENT\x01p1", "className": "C", "classCRC": "1",
    "a": "P", "b": "DefaultCluster_REPLY_TOPIC", "c": "TBW102", "d": "4", "e": "0", "f": "0",
    "g": "5", "h": "0", "i": "REPLY_TO_CLIENT\x01p1",
    "accessKey": "RocketMQ", "globalWhiteAddrs": "10.0.0.*", "aclFileFullPath": "plain_acl.yml",
}  # fmt: skip
EXTREMES = (
    None, "", "x", "-1", "0", "2147483647", "-2147483648", "2147483648", "9223372036854775807",
    "-9223372036854775808", "9223372036854775808", "true", "../../etc", "a" * 300, "a@b", "\x00",
    "\x01\x02", "é", "%RETRY%G",
)  # fmt: skip
BODIES = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: b'{"groupName":"Q"}',
    RequestCode.UPDATE_BROKER_CONFIG: b"traceOn=true",
    RequestCode.HEART_BEAT: b'{"clientID":"c9"}',
}
BAD_BODIES = (b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"groupName":7}', b"a=b", b"=")
CASES = [None, *range(14)]  # a bad body, or which field is bad; none has more


def kept(desk):
    """All that a refusal must leave as it was."""
    offsets = {key: dict(queues) for key, queues in desk.offsets.body.offset_table.items()}
    return desk.topics.body, desk.groups.body, offsets, desk.settings.all, desk.store.log_bounds


async def furnish(desk):
    desk.make_topic("T")
    desk.put("T", KEYS="k", TAGS="a")
    desk.groups.put(GroupConfig(group_name="G"))
    desk.offsets.commit("G", "T", 0, 1)
    desk.stats.put("T", 0, 1, 1)
    await desk.join("G", "T")
    await desk.produce("P")


async def check(desk, code, fields, body):
    before = kept(desk)
    reply = await desk.ask(code, fields, body)
    case = f"{RequestCode(code).name} {fields} {body!r}"
    assert reply.remark != FAILED.remark, case
    if reply.code != 0:
        assert reply.remark, case
        if code not in (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2):
            assert kept(desk) == before, case  # a reply that reaches nobody is kept


@pytest.mark.parametrize("case", CASES)
def test_no_field_breaks_a_row(tmp_path, case):
    async def story(desk):
        await furnish(desk)
        for code, route in desk.routes.items():
            names = route.header.__struct_encode_fields__
            good = {name: GOOD[name] for name in names if name in GOOD}
            if case is None:
                for body in BAD_BODIES:
                    await check(desk, code, good, body)
            elif case < len(names):
                for value in EXTREMES:
                    fields = {**good, names[case]: value}
                    if value is None:
                        del fields[names[case]]
                    await check(desk, code, fields, BODIES.get(code, b""))
            if desk.topics.get("T") is None:
                desk.make_topic("T")
                desk.put("T", KEYS="k", TAGS="a")

    at_desk(tmp_path, story)


def test_what_is_called_good_here_is(tmp_path):
    async def story(desk):
        await furnish(desk)
        refused = {}
        for code, route in desk.routes.items():
            names = route.header.__struct_encode_fields__
            good = {name: GOOD[name] for name in names if name in GOOD}
            if code == RequestCode.SEND_REPLY_MESSAGE:
                good["topic"] = "DefaultCluster_REPLY_TOPIC"
            if code != RequestCode.DELETE_TOPIC_IN_BROKER:
                reply = await desk.ask(code, good, BODIES.get(code, b""))
                if reply.code:
                    refused[RequestCode(code).name] = reply.code
        declined = {RequestCode(code).name for code in declined_routes()}
        assert refused == dict.fromkeys(declined, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

    at_desk(tmp_path, story)
