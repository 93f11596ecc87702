"""Consumer groups as administrators ask for them."""

import json

import pytest

from broker.desk import at_desk
from cometmq.protocol.bodies.tables import GroupConfig, GroupConfigTable
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.group import DeleteGroupHeader
from cometmq.protocol.java.fastjson import dumps, loads

UPDATE = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP


def test_a_group_is_on_disk_when_its_making_is_answered(tmp_path):
    async def story(desk):
        group = GroupConfig(group_name="G", retry_max_times=3, consume_broadcast_enable=False)
        assert (await desk.ask(UPDATE, body=dumps(group))).code == 0
        kept = json.loads((tmp_path / "config/subscriptionGroup.json").read_bytes())
        assert kept["subscriptionGroupTable"]["G"]["retryMaxTimes"] == 3
        reply = await desk.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        assert loads(reply.body, GroupConfigTable).subscription_group_table["G"] == group

    at_desk(tmp_path, story)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"groupName":""}', "empty"),
        (b'{"groupName":"a/b"}', "may contain only"),
        (b'{"groupName":"G","retryQueueNums":-1}', "retryQueueNums"),
        (b'{"groupName":"G","retryQueueNums":100000}', "retryQueueNums"),
        (b'{"groupName":"G","retryMaxTimes":-2}', "retryMaxTimes"),
        (b'{"groupName":"G","brokerId":-1}', "brokerId"),
        (b'{"groupName":"G","retryMaxTimes":"many"}', "GroupConfig"),
        (b"", "GroupConfig"),
    ],
)
def test_a_bad_group_is_refused_and_changes_nothing(tmp_path, body, named):
    async def story(desk):
        before = desk.groups.body
        reply = await desk.ask(UPDATE, body=body)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert named in reply.remark
        assert desk.groups.body == before

    at_desk(tmp_path, story)


@pytest.mark.parametrize("removes", [True, False])
def test_offsets_of_a_deleted_group_go_only_if_they_are_to(tmp_path, removes):
    async def story(desk):
        desk.groups.put(GroupConfig(group_name="G"))
        desk.offsets.commit("G", "T", 0, 5)
        desk.offsets.commit("H", "T", 0, 6)
        reply = await desk.ask(
            RequestCode.DELETE_SUBSCRIPTIONGROUP,
            DeleteGroupHeader(group_name="G", remove_offset=removes),
        )
        assert reply.code == 0
        assert desk.groups.get("G") is None
        assert desk.offsets.of("G", "T") == ({} if removes else {0: 5})
        assert desk.offsets.of("H", "T") == {0: 6}

    at_desk(tmp_path, story)


def test_groups_of_the_system_cannot_be_deleted(tmp_path):
    async def story(desk):
        for name in ("TOOLS_CONSUMER", "CID_RMQ_SYS_x"):
            reply = await desk.ask(
                RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader(group_name=name)
            )
            assert reply.code == ResponseCode.SYSTEM_ERROR, name
        assert desk.groups.get("TOOLS_CONSUMER") is not None

    at_desk(tmp_path, story)
