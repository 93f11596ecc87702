"""What a broker says of itself."""

import errno

from broker.desk import at_desk
from cometmq.broker.config import BrokerConfig
from cometmq.protocol.bodies.stats import BrokerStats
from cometmq.protocol.bodies.tables import KeyValues
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.filtersrv import RegisterFilterServerHeader
from cometmq.protocol.headers.query import ViewStatsHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.java.values import parse_properties

# What consoles and exporters of 4.9 read.
KEYS = {
    "bootTimestamp",
    "runtime",
    "putMessageEntireTimeMax",
    "putMessageTimesTotal",
    "putMessageFailedTimes",
    "putMessageSizeTotal",
    "putMessageDistributeTime",
    "putMessageAverageSize",
    "dispatchMaxBuffer",
    "getMessageEntireTimeMax",
    "putTps",
    "getFoundTps",
    "getMissTps",
    "getTotalTps",
    "getTransferedTps",
    "putLatency99",
    "putLatency999",
    "commitLogDiskRatio",
    "consumeQueueDiskRatio",
    "commitLogMinOffset",
    "commitLogMaxOffset",
    "brokerVersionDesc",
    "brokerVersion",
    "msgPutTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
    "msgGetTotalYesterdayMorning",
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
    "sendThreadPoolQueueSize",
    "sendThreadPoolQueueCapacity",
    "pullThreadPoolQueueSize",
    "pullThreadPoolQueueCapacity",
    "queryThreadPoolQueueSize",
    "queryThreadPoolQueueCapacity",
    "EndTransactionQueueSize",
    "EndTransactionThreadPoolQueueCapacity",
    "dispatchBehindBytes",
    "pageCacheLockTimeMills",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueHeadWaitTimeMills",
    "earliestMessageTimeStamp",
    "startAcceptSendRequestTimeStamp",
    "remainTransientStoreBufferNumbs",
    "remainHowManyDataToFlush",
    "commitLogDirCapacity",
    "scheduleMessageOffset_1",
}


async def told(desk):
    reply = await desk.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    assert reply.code == 0, reply.remark
    return loads(reply.body, KeyValues).table


def test_all_keys_are_there(tmp_path):
    async def story(desk):
        table = await told(desk)
        assert table.keys() == {*KEYS, f"commitLogDiskRatio_{tmp_path}/commitlog"}
        assert list(table) == sorted(table)

    at_desk(tmp_path, story)


def test_the_numbers_are_of_what_happened(tmp_path):
    async def story(desk):
        begin_ms = desk.clock.wall_ms()
        assert (await told(desk))["earliestMessageTimeStamp"] == "-1"
        desk.make_topic("T")
        stored = desk.put("T")
        assert (await told(desk))["remainHowManyDataToFlush"] == f"{stored.size} B"
        await desk.store.flush()
        assert (await told(desk))["remainHowManyDataToFlush"] == "0 B"
        desk.stats.put("T", 0, 1, stored.size)
        desk.stats.put("T", 0, 2, 3 * stored.size)
        desk.stats.put_failed()
        desk.stats.put_took(7)
        desk.stats.got("G", "T", 0, 2, 100)
        desk.lanes.enter("pull")  # one that is parked is no load
        desk.lanes.enter("send")
        desk.clock.jump(93_784_000)
        table = await told(desk)
        expected = {
            "bootTimestamp": str(begin_ms),
            "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]",
            "putMessageTimesTotal": "3",
            "putMessageSizeTotal": str(4 * stored.size),
            "putMessageAverageSize": repr(4 * stored.size / 3),
            "putMessageFailedTimes": "1",
            "putMessageEntireTimeMax": "7",
            "putLatency99": "7.00",
            "msgPutTotalTodayNow": "3",
            "msgGetTotalTodayNow": "2",
            "commitLogMinOffset": "0",
            "commitLogMaxOffset": str(stored.size),
            "commitLogDiskRatio": "0.25",
            "consumeQueueDiskRatio": "0.25",
            "earliestMessageTimeStamp": str(begin_ms),
            "pullThreadPoolQueueSize": "0",
            "pullThreadPoolQueueCapacity": "100000",
            "sendThreadPoolQueueSize": "1",
            "scheduleMessageOffset_1": "7,9",
            "brokerVersion": "407",
            "brokerVersionDesc": "V4_9_7",
        }
        assert {key: table[key] for key in expected} == expected
        assert len(table["putTps"].split(" ")) == 3
        assert table["commitLogDirCapacity"].startswith("Total : ")

    at_desk(tmp_path, story)


def test_settings_are_shown_and_changed_by_the_allow_list(tmp_path):
    async def story(desk):
        told = []
        desk.topics.on_change(lambda: told.append(1))
        reply = await desk.ask(RequestCode.GET_BROKER_CONFIG)
        before = reply.header.version
        texts = parse_properties(reply.body.decode())
        assert (texts["brokerName"], texts["fileReservedTime"]) == ("broker-a", "72")
        update = RequestCode.UPDATE_BROKER_CONFIG
        assert (await desk.ask(update, body=b"longPollingEnable=false\n")).code == 0
        assert (desk.settings.now(BrokerConfig).long_polling_enable, told) == (False, [])
        reply = await desk.ask(RequestCode.GET_BROKER_CONFIG)
        assert parse_properties(reply.body.decode())["longPollingEnable"] == "false"
        assert reply.header.version != before
        assert (await desk.ask(update, body=b"brokerPermission=4")).code == 0
        assert told == [1], "the name servers must hear of it"

    at_desk(tmp_path, story)


def test_settings_that_may_not_be_changed(tmp_path):
    async def story(desk):
        before = (await desk.ask(RequestCode.GET_BROKER_CONFIG)).body
        for body, code in (
            (b"storePathRootDir=/etc", ResponseCode.NO_PERMISSION),
            (b"brokerPermission=6\nlistenPort=1", ResponseCode.NO_PERMISSION),
            (b"brokerPermission=9", ResponseCode.SYSTEM_ERROR),
            (b"\xff", ResponseCode.SYSTEM_ERROR),
        ):
            assert (await desk.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)).code == code, body
        assert (await desk.ask(RequestCode.GET_BROKER_CONFIG)).body == before

    at_desk(tmp_path, story)


def test_settings_that_cannot_be_written_stay_as_they_are(tmp_path):
    async def story(desk):
        def replace(path, content):
            raise OSError(errno.EBUSY, "Device or resource busy")

        desk.settings._disk.replace = replace
        before = (await desk.ask(RequestCode.GET_BROKER_CONFIG)).body
        reply = await desk.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=4")
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "broker.properties cannot be replaced: Device or resource busy" in reply.remark
        assert (await desk.ask(RequestCode.GET_BROKER_CONFIG)).body == before

    at_desk(tmp_path, story)


def test_statistics_by_name(tmp_path):
    async def story(desk):
        desk.stats.put("T", 0, 10, 100)
        code = RequestCode.VIEW_BROKER_STATS_DATA
        ask = ViewStatsHeader(stats_name="TOPIC_PUT_NUMS", stats_key="T")
        reply = await desk.ask(code, ask)
        minute = loads(reply.body, BrokerStats).stats_minute
        assert (minute.sum, minute.tps, minute.avgpt) == (10, 1.0, 10.0)
        reply = await desk.ask(code, ViewStatsHeader(stats_name="TOPIC_PUT_NUMS", stats_key="U"))
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark == "The stats <TOPIC_PUT_NUMS> <U> not exist"

    at_desk(tmp_path, story)


def test_filter_servers_are_declined(tmp_path):
    async def story(desk):
        ask = RegisterFilterServerHeader(filter_server_addr="127.0.0.1:1")
        reply = await desk.ask(RequestCode.REGISTER_FILTER_SERVER, ask)
        assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert "SQL92" in reply.remark

    at_desk(tmp_path, story)
