"""What name servers are told: at the start, from time to time, when topics change, at the end."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from broker.whole import open_whole
from broker.works import at_work
from cometmq.broker import registration as registration_module
from cometmq.broker.registration import Registration
from cometmq.namesrv.config import NamesrvConfig
from cometmq.namesrv.server import NameServer
from cometmq.protocol.bodies.register import decode_register
from cometmq.protocol.bodies.route import TopicRoute
from cometmq.protocol.bodies.tables import DataVersion, TopicConfig
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers import namesrv as headers
from cometmq.protocol.headers.base import write_header
from cometmq.protocol.headers.topic import CreateTopicHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Reply, Route
from peers.ports import free_port
from remoting.rig import pooling, serving, until


class Told:
    """A name server that only remembers: each request by its name, registrations with topics."""

    def __init__(self):
        self.requests, self.topics, self.header = [], {}, None
        self.knows, self.fails = DataVersion(), False
        self.ordered = b""
        self.answers = asyncio.Event()
        self.answers.set()
        code = RequestCode
        self.routes = {
            code.REGISTER_BROKER: Route(self.register, headers.RegisterBrokerHeader, OPEN),
            code.UNREGISTER_BROKER: Route(self.leave, headers.BrokerHeader, OPEN),
            code.QUERY_DATA_VERSION: Route(self.version, headers.BrokerHeader, OPEN),
        }

    async def register(self, call, ask):
        self.requests.append("register")
        await self.answers.wait()
        if self.fails:
            return Reply(ResponseCode.SYSTEM_ERROR, remark="not today")
        body = decode_register(call.command.body, compressed=ask.compressed)
        self.topics = body.topics.topic_config_table
        self.knows, self.header = body.topics.data_version, ask
        return Reply(header=headers.RegisterBrokerReplyHeader(), body=self.ordered)

    def leave(self, call, ask):
        self.requests.append("leave")
        return Reply()

    def version(self, call, ask):
        self.requests.append("version")
        changed = loads(call.command.body, DataVersion) != self.knows
        return Reply(header=headers.DataVersionReplyHeader(changed=changed))

    async def count(self, number, request="register"):
        await until(lambda: self.requests.count(request) >= number, f"{number} of {request}")
        assert self.requests.count(request) == number


@asynccontextmanager
async def telling(**config):
    """A broker that tells such a name server, by a clock that stands still."""
    told = Told()
    async with (
        serving(told.routes) as server,
        open_whole(namesrv_addr=server.address, **config) as whole,
    ):
        yield SimpleNamespace(told=told, whole=whole)


def run(story):
    async def limited():
        async with asyncio.timeout(120):
            await story()

    asyncio.run(limited())


def test_it_registers_before_it_is_ready_and_leaves_at_the_end():
    async def story():
        async with telling() as both:
            told, whole = both.told, both.whole
            assert told.requests == ["register"]
            assert set(told.topics) == set(whole.topics.names())
            header = told.header
            assert (header.broker_name, header.broker_id) == ("broker-a", 0)
            assert header.broker_addr == f"127.0.0.1:{whole.broker.port}"
            assert header.ha_server_addr == f"127.0.0.1:{whole.broker.port + 1}"
        assert told.requests == ["register", "leave"]

    run(story)


def test_topic_changes_are_registered_soon_and_together():
    async def story():
        async with telling() as both:
            for number in range(5):
                both.whole.make_topic(f"T{number}")
            await both.told.count(2)
            assert {f"T{number}" for number in range(5)} <= set(both.told.topics)
            assert (await both.whole.send("Auto")).code == 0
            await both.told.count(3)
            assert both.told.topics["Auto"].write_queue_nums == 4

    run(story)


def new_topic(whole, name):
    header = CreateTopicHeader(
        topic=name, default_topic="TBW102", read_queue_nums=4, write_queue_nums=4, perm=6,
        topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
    )  # fmt: skip
    return asyncio.create_task(whole.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header))


def test_a_topic_that_was_asked_for_is_known_to_name_servers_when_it_is_answered(monkeypatch):
    monkeypatch.setattr(registration_module, "_SETTLED_MS_MAX", 60_000)

    async def story():
        async with telling() as both:
            both.told.answers.clear()
            both.whole.make_topic("Before")  # which they are being told of
            await both.told.count(2)
            asked = new_topic(both.whole, "Asked")
            await until(lambda: both.whole.topics.file.is_saved, "it is on disk")
            both.told.answers.set()
            assert (await asked).code == 0
            assert "Asked" in both.told.topics

    run(story)


def test_a_name_server_that_is_silent_holds_up_neither_topics_nor_the_other():
    async def story():
        silent, other = Told(), Told()
        async with (
            serving(silent.routes) as first,
            serving(other.routes) as second,
            open_whole(namesrv_addr=f"{first.address};{second.address}") as whole,
        ):
            silent.answers.clear()
            for name in ("One", "Two"):
                assert (await new_topic(whole, name)).code == 0
                assert name in other.topics
            assert "One" not in silent.topics
            silent.answers.set()

    run(story)


@pytest.mark.parametrize(("asked_ms", "period_ms"), [(30_000, 30_000), (1, 10_000),
                                                     (10**9, 60_000)])  # fmt: skip
def test_it_registers_again_every_period(asked_ms, period_ms):
    async def story():
        async with telling(register_name_server_period=asked_ms) as both:
            await both.whole.clock.advance(period_ms - 1)
            await both.told.count(1)
            await both.whole.clock.advance(1)
            await both.told.count(2)

    run(story)


def test_without_force_a_name_server_that_knows_is_only_asked():
    async def story():
        async with telling(force_register=False) as both:
            await both.whole.clock.advance(30_000)
            await both.told.count(1, "version")
            both.told.knows = None  # it was started again, and knows nothing
            await both.whole.clock.advance(30_000)
            await both.told.count(2)
            assert both.told.requests.count("version") == 2

    run(story)


def test_what_the_broker_forbids_it_forbids_for_every_topic():
    async def story():
        async with telling() as both:
            update = RequestCode.UPDATE_BROKER_CONFIG
            assert (await both.whole.ask(update, body=b"brokerPermission=4")).code == 0
            await both.told.count(2)
            assert {topic.perm & 2 for topic in both.told.topics.values()} == {0}
            assert both.whole.topics.get("BenchmarkTest").perm == 6, "its own table stays"

    run(story)


def test_compressed_is_the_same():
    async def story():
        async with telling(compressed_register=True) as both:
            assert both.told.header.compressed
            assert set(both.told.topics) == set(both.whole.topics.names())

    run(story)


def test_a_name_server_that_fails_or_is_not_there_costs_the_others_nothing(caplog):
    async def story():
        good, bad = Told(), Told()
        bad.fails = True
        async with serving(good.routes) as first, serving(bad.routes) as second:
            nobody = f"127.0.0.1:{free_port()}"
            addresses = ";".join((nobody, second.address, first.address))
            async with open_whole(namesrv_addr=addresses) as whole:
                assert set(good.topics) == set(whole.topics.names())
        assert nobody in caplog.text
        assert "not today" in caplog.text
        assert good.requests == bad.requests == ["register", "leave"]

    run(story)


def test_our_own_name_server_gives_its_routes_while_it_runs(tmp_path):
    config = NamesrvConfig(
        kv_config_path=str(tmp_path / "kv.json"), config_store_path=str(tmp_path / "ns"),
        bind_address="127.0.0.1", listen_port=0,
    )  # fmt: skip

    async def story():
        async with NameServer(config) as server, pooling() as pool:
            address = f"127.0.0.1:{server.port}"

            async def route(topic):
                header = headers.RouteHeader(topic=topic)
                code = RequestCode.GET_ROUTEINFO_BY_TOPIC
                return await pool.invoke(address, code, header, timeout_ms=5_000)

            async with open_whole(namesrv_addr=address) as whole:
                assert (await whole.send("Auto")).code == 0
                for _ in range(1000):
                    reply = await route("Auto")
                    if reply.code == 0:
                        break
                found = loads(reply.body, TopicRoute)
                assert found.broker_datas[0].broker_addrs[0] == whole.identity.address
                assert found.queue_datas[0].write_queue_nums == 4
            assert (await route("Auto")).code == ResponseCode.TOPIC_NOT_EXIST

    run(story)


ORDER = "ORDER_TOPIC_CONFIG"


def test_topics_have_an_order_if_the_name_server_says_so(tmp_path):
    config = NamesrvConfig(
        kv_config_path=str(tmp_path / "kv.json"), config_store_path=str(tmp_path / "ns"),
        bind_address="127.0.0.1", listen_port=0,
    )  # fmt: skip

    async def story():
        async with NameServer(config) as server, pooling() as pool:
            address = f"127.0.0.1:{server.port}"

            async def tell(code, header):
                assert (await pool.invoke(address, code, header, timeout_ms=5_000)).code == 0

            async with open_whole(namesrv_addr=address) as whole:

                def ordered():
                    return {name for name in whole.topics.names() if whole.topics.get(name).order}

                whole.make_topic("A")
                whole.make_topic("B", order=True)
                await whole.registration.exchange(forced=True)
                assert ordered() == {"B"}, "nobody gave a topic an order there: ours stays"
                for name in ("A", "unknown"):
                    header = headers.PutKvHeader(namespace=ORDER, key=name, value="broker-a:4")
                    await tell(RequestCode.PUT_KV_CONFIG, header)
                await whole.clock.advance(30_000)
                await until(lambda: ordered() == {"A"}, "its period is over")
                assert whole.topics.get("A").write_queue_nums == 2
                for name in ("A", "unknown"):
                    header = headers.KvHeader(namespace=ORDER, key=name)
                    await tell(RequestCode.DELETE_KV_CONFIG, header)
                await whole.clock.advance(30_000)
                await until(lambda: not ordered(), "its period is over")

    run(story)


def test_an_order_is_not_taken_from_the_answer_to_a_change():
    """It may be the topic that is to have the order, before its name server was told so."""

    async def story():
        async with telling() as both:
            both.told.ordered = b'{"table":{}}'
            both.whole.make_topic("T", order=True)
            await both.told.count(2)
            await both.whole.broker.create_topic(TopicConfig(topic_name="U", order=True))
            assert both.whole.topics.get("T").order
            assert both.told.topics["U"].order
            await both.whole.registration.exchange(forced=True)
            assert not both.whole.topics.get("T").order
            await until(lambda: not both.told.topics["T"].order, "they are told")

    run(story)


def test_an_order_that_cannot_be_read_changes_nothing(caplog):
    async def story():
        async with telling() as both:
            both.whole.make_topic("T", order=True)
            await both.told.count(2)
            for garbage in (b"garbage", b"[]", b'{"table":7}'):
                both.told.ordered = garbage
                caplog.clear()
                await both.whole.registration.exchange(forced=True)
                assert "which topics have an order is not known" in caplog.text
            assert both.whole.topics.get("T").order

    run(story)


def test_the_first_name_server_that_knows_says_which_topics_have_an_order():
    async def story():
        new, first, second = Told(), Told(), Told()  # nothing was ever written down at the new one
        first.ordered, second.ordered = b'{"table":{"A":"b:1"}}', b'{"table":{"B":"b:1"}}'
        async with (
            serving(new.routes) as newest,
            serving(first.routes) as one,
            serving(second.routes) as other,
        ):
            nobody = f"127.0.0.1:{free_port()}"
            addresses = ";".join((nobody, newest.address, one.address, other.address))
            async with open_whole(namesrv_addr=addresses) as whole:
                whole.make_topic("A")
                whole.make_topic("B")
                await whole.registration.exchange(forced=True)
                assert (whole.topics.get("A").order, whole.topics.get("B").order) == (True, False)

    run(story)


class Meanwhile:
    """In place of a pool: while a name server is first asked something, something else happens."""

    def __init__(self, happens):
        self.codes, self.topics, self.happens = [], [], happens

    async def invoke(self, server, code, header, body, *, timeout_ms):
        self.codes.append(code)
        if code == RequestCode.REGISTER_BROKER:
            topics = decode_register(body, compressed=header.compressed).topics
            self.topics.append(set(topics.topic_config_table))
        happens, self.happens = self.happens, None
        if happens is not None:
            await happens()
        fields = write_header(headers.DataVersionReplyHeader(changed=True))
        return Command(code=ResponseCode.SUCCESS, fields=fields)


def registration(works, pool):
    return Registration(pool, works.topics, works.identity, works.settings, works.background)


def test_a_topic_created_during_the_first_registration_is_registered_next():
    async def story(works):
        async def make():
            works.topics.put(TopicConfig(topic_name="New"))

        pool = Meanwhile(make)
        await registration(works, pool).start()
        await works.clock.advance(0)
        assert [("New" in topics) for topics in pool.topics] == [False, True]

    at_work(story, namesrv_addr="ns:9876")


def test_a_broker_that_left_while_it_asked_does_not_register_again():
    async def story(works):
        async def leave():
            await told.leave()

        pool = Meanwhile(leave)
        told = registration(works, pool)
        await told.register()
        assert pool.codes == [RequestCode.QUERY_DATA_VERSION, RequestCode.UNREGISTER_BROKER]

    at_work(story, namesrv_addr="ns:9876", force_register=False)
