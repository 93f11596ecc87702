"""A producer with brokers whose answers the tests choose."""

import asyncio
from datetime import timedelta

import pytest

from batch_entries import unpack_batch
from client.fake_cluster import CUT, SILENT, fake_cluster, run, until
from cometmq.client.config import ClientConfig, ProducerConfig
from cometmq.client.message import Message, SendResult, SendStatus
from cometmq.client.send.producer import Producer
from cometmq.errors import (
    BadMessage,
    BadSetting,
    Closed,
    NoRoute,
    PartlySent,
    Refused,
    TimedOut,
    TooManyRequests,
    Unreachable,
)
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.records.compression import decompress
from cometmq.protocol.records.properties import decode_properties
from cometmq.remoting.limits import CLIENT_LIMITS
from cometmq.testing.clock import ManualClock

ORDER = Message("orders", b"one", tags="paid", keys=("k1", "k2"))


def config(**settings):
    settings = {"retries": 2, "async_retries": 2, "retry_backoff": 0, **settings}
    return ProducerConfig(group="senders", **settings)


def producing(cluster):
    return Producer(config(), cluster.name_servers)


def test_what_is_sent_arrives():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            result = await producer.send(ORDER)
        ((ask, body),) = cluster["a"].sends
        assert (ask.producer_group, ask.topic, ask.default_topic) == ("senders", "orders", "TBW102")
        assert body == b"one"
        properties = decode_properties(ask.properties)
        assert properties == {"UNIQ_KEY": result.message_id, "TAGS": "paid", "KEYS": "k1 k2"}
        assert result.status is SendStatus.OK
        assert result.queue == MessageQueue("orders", "a", ask.queue_id)
        assert (result.offset_id, result.queue_offset) == ("ID1", 0)
        assert (result.region_id, result.trace_on) == ("DefaultRegion", True)
        assert cluster["a"].gone == ["senders"]

    run(test)


def test_messages_take_turns_over_queues_and_brokers():
    async def test():
        async with fake_cluster("a", "b") as cluster, producing(cluster) as producer:
            queues = [(await producer.send(ORDER)).queue for _ in range(8)]
        assert all(queues.count(queue) == 2 for queue in queues)
        assert cluster.route_asks == 1

    run(test)


@pytest.mark.parametrize(
    "answer",
    [
        CUT,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_PERMISSION,
    ],
)
def test_a_failed_send_is_tried_at_another_broker(answer):
    async def test():
        async with fake_cluster("a", "b") as cluster, producing(cluster) as producer:
            cluster["a"].answers = [answer] * 9
            for _ in range(4):
                assert (await producer.send(ORDER)).queue.broker_name == "b"
        assert len(cluster["b"].sends) == 4
        keys = [decode_properties(ask.properties)["UNIQ_KEY"] for ask, _ in cluster["a"].sends]
        assert set(keys) <= {
            decode_properties(ask.properties)["UNIQ_KEY"] for ask, _ in cluster["b"].sends
        }, "another try is the same message"

    run(test)


def test_the_error_counts_the_attempts():
    async def test():
        async with fake_cluster() as cluster:
            settings = config(retries=3)
            async with Producer(settings, cluster.name_servers) as producer:
                cluster["a"].answers = [ResponseCode.SYSTEM_ERROR] * 9
                with pytest.raises(Refused) as caught:
                    await producer.send(ORDER)
        assert caught.value.code == ResponseCode.SYSTEM_ERROR
        assert "tried 4 times" in caught.value.__notes__[0]
        assert len(cluster["a"].sends) == 4

    run(test)


@pytest.mark.parametrize(
    "answer", [ResponseCode.SYSTEM_BUSY, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.NO_PERMISSION]
)
def test_a_refusal_that_is_not_for_retries_is_final(answer):
    async def test():
        codes = config().retry_response_codes - {answer}
        async with fake_cluster("a", "b") as cluster:
            settings = config(retry_response_codes=codes)
            async with Producer(settings, cluster.name_servers) as producer:
                cluster["a"].answers, cluster["b"].answers = [answer], [answer]
                with pytest.raises(Refused) as caught:
                    await producer.send(ORDER)
        assert caught.value.code == answer
        assert len(cluster.sends) == 1

    run(test)


def test_system_busy_is_retried_if_configured():
    async def test():
        codes = config().retry_response_codes | {ResponseCode.SYSTEM_BUSY}
        async with fake_cluster("a", "b") as cluster:
            settings = config(retry_response_codes=codes)
            async with Producer(settings, cluster.name_servers) as producer:
                cluster["a"].answers = [ResponseCode.SYSTEM_BUSY] * 9
                for _ in range(4):
                    assert (await producer.send(ORDER)).queue.broker_name == "b"

    run(test)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_unsafe_message_is_returned_or_retried(elsewhere):
    async def test():
        async with fake_cluster("a", "b") as cluster:
            settings = config(retry_another_broker_when_not_stored=elsewhere)
            async with Producer(settings, cluster.name_servers) as producer:
                cluster["a"].answers = [ResponseCode.FLUSH_DISK_TIMEOUT] * 9
                results = [await producer.send(ORDER) for _ in range(4)]
        statuses = {result.status for result in results}
        if elsewhere:
            assert statuses == {SendStatus.OK}
        else:
            assert statuses == {SendStatus.OK, SendStatus.FLUSH_DISK_TIMEOUT}

    run(test)


def test_a_message_that_is_unsafe_everywhere_has_a_result():
    async def test():
        async with fake_cluster("a", "b") as cluster:
            settings = config(retry_another_broker_when_not_stored=True)
            async with Producer(settings, cluster.name_servers) as producer:
                for broker in cluster.brokers:
                    broker.answers = [ResponseCode.SLAVE_NOT_AVAILABLE] * 9
                result = await producer.send(ORDER)
        assert result.status is SendStatus.SLAVE_NOT_AVAILABLE
        assert len(cluster.sends) == 3

    run(test)


def test_one_deadline_for_all_attempts():
    async def test():
        async with fake_cluster("a", "b") as cluster, producing(cluster) as producer:
            for _ in range(4):  # each queue of each broker: no time goes to routes and connections
                await producer.send(ORDER)
            for broker in cluster.brokers:
                broker.answers = [SILENT] * 9
            with pytest.raises(TimedOut, match="may have stored"):
                await producer.send(ORDER, timeout=timedelta(milliseconds=500))
            await until(lambda: len(cluster.sends) > 4)
            assert len(cluster.sends) == 5
            assert all(not channel._calls for channel in producer._session.pool._alive)

    run(test)


def test_a_chosen_queue_has_one_attempt():
    async def test():
        async with fake_cluster("a", "b") as cluster, producing(cluster) as producer:
            queue = MessageQueue("orders", "b", 1)
            assert (await producer.send(ORDER, queue=queue)).queue == queue
            cluster["b"].answers = [ResponseCode.SYSTEM_ERROR]
            with pytest.raises(Refused):
                await producer.send(ORDER, queue=queue)
            last = await producer.send(
                ORDER, selector=lambda queues, message, key: queues[key], key=-1
            )
            assert last.queue == queue
            with pytest.raises(BadMessage, match="not a queue of topic"):
                await producer.send(ORDER, queue=MessageQueue("other", "b", 1))

    run(test)


def test_messages_of_one_key_go_to_one_queue():
    async def test():
        async with fake_cluster("a", "b") as cluster, producing(cluster) as producer:
            by_key = {}
            for number in range(40):
                key = f"customer-{number % 10}"
                message = Message("orders", b"x", sharding_key=key)
                by_key.setdefault(key, set()).add((await producer.send(message)).queue)
                by_key[key].add((await producer.send(ORDER, key=key)).queue)
        assert all(len(queues) == 1 for queues in by_key.values())
        assert len(set.union(*by_key.values())) > 1

    run(test)


def test_a_missing_topic_has_the_queues_that_brokers_would_create():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            with pytest.raises(NoRoute, match="autoCreateTopicEnable"):
                await producer.send(Message("new", b"x"))
            cluster.queues["TBW102"] = 8
            queues = {(await producer.send(Message("new", b"x"))).queue for _ in range(8)}
            assert len(queues) == 4, "as many as the producer asks for"
            ask, _ = cluster["a"].sends[-1]
            assert ask.default_topic_queue_nums == 4

    run(test)


def test_queues_follow_the_route():
    async def test():
        async with fake_cluster() as cluster:
            client = ClientConfig(name_servers=cluster.name_servers, poll_name_server_interval=0.01)
            async with Producer("senders", client=client) as producer:
                await producer.send(ORDER)
                cluster.queues["orders"] = 7
                await until(
                    lambda: len(producer._sender.destinations.get("orders").queues.queues) == 7
                )
                assert len({(await producer.send(ORDER)).queue for _ in range(7)}) == 7

    run(test)


def test_names_have_the_namespace_on_the_wire_only():
    async def test():
        async with fake_cluster() as cluster:
            cluster.queues = {"shop%orders": 2}
            client = ClientConfig(name_servers=cluster.name_servers, namespace="shop")
            async with Producer("senders", client=client) as producer:
                result = await producer.send(ORDER)
                assert (await producer.fetch_publish_queues("orders"))[0].topic == "orders"
        ask, _ = cluster["a"].sends[0]
        assert (ask.topic, ask.producer_group) == ("shop%orders", "shop%senders")
        assert result.queue.topic == "orders"

    run(test)


def test_a_long_body_is_compressed_unless_that_makes_it_longer():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            for body in (b"x" * 4095, b"x" * 4096, b"x" * 100_000, bytes(range(256)) * 16):
                await producer.send(Message("orders", body))
                ask, sent = cluster["a"].sends[-1]
                assert decompress(sent, ask.sys_flag, 1 << 20) == body
        assert [ask.sys_flag for ask, _ in cluster["a"].sends] == [0, 0x301, 0x301, 0x301]
        assert len(cluster["a"].sends[2][1]) < 1000

    run(test)


def test_invalid_messages_are_refused_before_sending():
    async def test():
        async with fake_cluster() as cluster:
            settings = config(message_size_max=1000)
            async with Producer(settings, cluster.name_servers) as producer:
                with pytest.raises(BadMessage, match="the limit is 1000"):
                    await producer.send(Message("orders", b"x" * 1001))
                with pytest.raises(BadMessage, match="not valid Unicode"):
                    await producer.send(Message("orders", b"x", tags="\ud800"))
                with pytest.raises(BadSetting, match="timeout is 'soon'"):
                    await producer.send(ORDER, timeout="soon")
                with pytest.raises(BadMessage, match="the limit"):
                    await producer.send_batch([ORDER, Message("orders", b"x" * 1001)])
        assert not cluster.sends

    run(test)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "at least one message"),
        ([ORDER, Message("other", b"x")], "one topic"),
        ([ORDER, Message("orders", b"x", delay_level=1)], "delayed"),
        ([ORDER, Message("orders", b"x", wait=False)], "same `wait`"),
    ],
)
def test_invalid_batches_are_refused(messages, why):
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            with pytest.raises(BadMessage, match=why):
                await producer.send_batch(messages)

    run(test)


def test_a_batch_is_one_send_with_a_key_for_each():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            (result,) = await producer.send_batch(
                Message("orders", b"%d" % number, tags="t", flag=number) for number in range(5)
            )
        ((ask, body),) = cluster["a"].sends
        assert ask.batch and ask.sys_flag == 0
        entries = list(unpack_batch(body))
        assert [entry.body for entry in entries] == [b"0", b"1", b"2", b"3", b"4"]
        assert [entry.flag for entry in entries] == [0, 1, 2, 3, 4]
        keys = [decode_properties(entry.properties_text)["UNIQ_KEY"] for entry in entries]
        assert len(set(keys)) == 5
        assert result.message_id == ",".join(keys)

    run(test)


def test_a_large_batch_is_split_and_stays_in_order():
    async def test():
        async with fake_cluster("a", "b") as cluster:
            settings = config(message_size_max=2000)
            async with Producer(settings, cluster.name_servers) as producer:
                results = await producer.send_batch(
                    [Message("orders", b"%03d" % number * 100) for number in range(20)]
                )
        assert 4 <= len(results) == len(cluster.sends)
        assert len({result.queue for result in results}) == 1
        (broker,) = {result.queue.broker_name for result in results}
        bodies = [entry.body for _, body in cluster[broker].sends for entry in unpack_batch(body)]
        assert bodies == [b"%03d" % number * 100 for number in range(20)]
        assert all(len(body) <= 2000 for _, body in cluster[broker].sends)

    run(test)


def test_a_batch_that_fails_half_way_says_what_is_stored():
    async def test():
        async with fake_cluster() as cluster:
            settings = config(message_size_max=2000)
            async with Producer(settings, cluster.name_servers) as producer:
                messages = [Message("orders", b"%03d" % number * 300) for number in range(4)]
                cluster["a"].answers = [0, 0] + [ResponseCode.SYSTEM_ERROR] * 9
                with pytest.raises(PartlySent) as caught:
                    await producer.send_batch(messages)
        assert len(caught.value.results) == 2
        assert caught.value.unsent == messages[2:]
        assert isinstance(caught.value.__cause__, Refused)

    run(test)


def test_oneway_is_written_and_nothing_else():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            cluster["a"].answers = [ResponseCode.SYSTEM_ERROR]
            assert await producer.send_oneway(ORDER) is None
            await until(lambda: cluster.sends)

    run(test)


# Sends that are told of


def test_callbacks_receive_results_and_errors():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            outcomes = []
            for _ in range(100):
                producer.send_soon(ORDER, outcomes.append)
            assert not outcomes
            await producer.flush()
            assert len(outcomes) == 100
            assert all(isinstance(outcome, SendResult) for outcome in outcomes)
            cluster["a"].answers = [ResponseCode.SYSTEM_BUSY]
            producer.send_soon(ORDER, outcomes.append)
            producer.send_soon(Message("orders", b"x", tags="\x01"), outcomes.append)
            producer.send_soon(Message("nobody", b"x"), outcomes.append)
            await producer.flush()
        kinds = {type(outcome) for outcome in outcomes[100:]}
        assert kinds == {Refused, BadMessage, NoRoute}

    run(test)


def test_a_callback_send_is_retried_at_its_chosen_queue():
    async def test():
        async with fake_cluster("a", "b") as cluster, producing(cluster) as producer:
            await producer.send(ORDER, queue=MessageQueue("orders", "a", 0))
            cluster["a"].answers = [CUT, CUT]
            outcomes = []
            producer.send_soon(ORDER, outcomes.append, queue=MessageQueue("orders", "a", 1))
            await producer.flush()
            assert outcomes[0].queue == MessageQueue("orders", "a", 1)
            cluster["a"].answers = [CUT] * 3
            producer.send_soon(ORDER, outcomes.append, queue=MessageQueue("orders", "a", 1))
            await producer.flush()
            assert isinstance(outcomes[1], Unreachable)
        assert not cluster["b"].sends

    run(test)


def test_a_callback_send_times_out():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await producer.send(ORDER)
            cluster["a"].answers = [SILENT]
            outcomes = []
            producer.send_soon(ORDER, outcomes.append, timeout=0.05)
            await producer.flush()
            assert isinstance(outcomes[0], TimedOut)

    run(test)


def test_a_callback_that_fails_is_logged(caplog):
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await producer.send(ORDER)
            producer.send_soon(ORDER, lambda outcome: 1 / 0)
            await producer.flush()
            await producer.send(ORDER)

    run(test)
    assert "the callback of a send failed" in caplog.text


def test_a_callback_may_send_again_when_it_failed():
    async def test():
        producer = Producer("senders", "127.0.0.1:1")
        outcomes = []

        def again(outcome):
            outcomes.append(outcome)
            if len(outcomes) < 3000:  # deeper than the stack
                producer.send_soon(ORDER, again)

        producer.send_soon(ORDER, again)
        await producer.flush()
        assert len(outcomes) == 3000
        assert all(isinstance(outcome, Closed) for outcome in outcomes)
        await producer.close()

    run(test)


# Its life


def test_before_it_starts_and_after_it_is_closed_nothing_is_sent():
    async def test():
        async with fake_cluster() as cluster:
            producer = Producer("senders", cluster.name_servers)
            with pytest.raises(Closed, match="not started"):
                await producer.send(ORDER)
            await producer.start()
            with pytest.raises(Closed, match="already"):
                await producer.start()
            await producer.close()
            await producer.close()
            for send in (producer.send, producer.send_oneway, lambda m: producer.send_batch([m])):
                with pytest.raises(Closed, match="is closed"):
                    await send(ORDER)
            with pytest.raises(Closed):
                await producer.start()
        assert not cluster.sends

    run(test)


def test_close_waits_for_sends_in_flight():
    async def test():
        async with fake_cluster() as cluster:
            producer = Producer("senders", cluster.name_servers)
            await producer.start()
            cluster["a"].held = asyncio.Event()
            outcomes = []
            awaited = asyncio.create_task(producer.send(ORDER))
            producer.send_soon(ORDER, outcomes.append)
            await until(lambda: len(cluster.sends) == 2)
            closing, ended = asyncio.create_task(producer.close()), []
            for task in (closing, awaited):
                task.add_done_callback(ended.append)
            await asyncio.sleep(0)  # in which it would have left
            cluster["a"].held.set()
            await closing
            assert ended == [awaited, closing]
            assert (await awaited).status is SendStatus.OK
            assert outcomes[0].status is SendStatus.OK

    run(test)


def test_close_waits_at_most_for_the_send_timeout():
    async def test():
        async with fake_cluster() as cluster:
            producer = Producer(config(send_timeout=0.05), cluster.name_servers)
            await producer.start()
            cluster["a"].answers = [SILENT, SILENT]
            await producer._sender.destinations.of("orders")
            awaited = asyncio.create_task(producer.send(ORDER, timeout=60))
            outcomes = []
            producer.send_soon(ORDER, outcomes.append, timeout=60)
            await until(lambda: len(cluster.sends) == 2)
            await producer.close()
            with pytest.raises((Unreachable, Closed)):
                await awaited
            assert isinstance(outcomes[0], Unreachable | Closed)

    run(test)


def test_a_cancelled_send_leaves_nothing_behind():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            cluster["a"].answers = [SILENT]
            task = asyncio.create_task(producer.send(ORDER))
            await until(lambda: cluster.sends)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert all(not channel._calls for channel in producer._session.pool._alive)
            assert (await producer.send(ORDER)).status is SendStatus.OK

    run(test)


def test_a_session_may_be_shared():
    async def test():
        async with fake_cluster() as cluster, cluster.session() as session:
            async with Producer("one", session=session), Producer("two", session=session) as two:
                with pytest.raises(BadSetting, match="already has a member of group two"):
                    await Producer("two", session=session).start()
                assert (await two.send(ORDER)).status is SendStatus.OK
            session.check_open()
            assert sorted(cluster["a"].gone) == ["one", "two"]
        with pytest.raises(BadSetting):
            Producer("three", "127.0.0.1:1", session=session)

    run(test)


def test_a_broker_that_comes_back_is_found_again():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await producer.send(ORDER)
            await cluster["a"].stop()
            with pytest.raises(Unreachable):
                await producer.send(ORDER)
            await cluster["a"].start(cluster.route_of)
            assert (await producer.send(ORDER)).status is SendStatus.OK

    run(test)


# Many at once


def test_more_than_may_be_in_flight_wait_their_turn():
    async def test():
        async with fake_cluster() as cluster:
            session = cluster.session()
            async with Producer("senders", session=session) as producer:
                await producer.send(ORDER)
                (channel,) = session.pool._alive
                channel._in_flight_max = 3
                cluster["a"].held = asyncio.Event()
                tasks = [asyncio.create_task(producer.send(ORDER)) for _ in range(10)]
                await until(lambda: len(cluster.sends) == 4)
                with pytest.raises(TooManyRequests):
                    await producer.send(ORDER, timeout=0.02)
                assert len(cluster.sends) == 4, "one before, three in flight"
                cluster["a"].held.set()
                results = await asyncio.gather(*tasks)
                assert [result.status for result in results] == [SendStatus.OK] * 10
            await session.close()

    run(test)


def test_large_messages_do_not_pile_up():
    """All of it at once would be 256 MiB, and the connection cut at a quarter of that."""

    async def test():
        body = b"x" * (1 << 20)
        async with fake_cluster() as cluster:
            settings = config(compress_over=1 << 22, send_timeout=60)
            async with Producer(settings, cluster.name_servers) as producer:
                await producer.send(ORDER)
                sizes = []

                async def send():
                    await producer.send(Message("orders", body))
                    sizes.append(max(each.unsent_size for each in producer._session.pool._alive))

                await asyncio.gather(*(send() for _ in range(256)))
        assert max(sizes) < 4 * CLIENT_LIMITS.write_high_water

    run(test)


# Hooks and faults


class Watcher:
    def __init__(self):
        self.seen = []

    def before_send(self, context):
        self.seen.append(("before", context.queue.broker_name, context.result, context.error))

    def after_send(self, context):
        error = type(context.error) if context.error else None
        self.seen.append(("after", context.queue.broker_name, context.result, error))


def test_hooks_see_each_attempt():
    async def test():
        async with fake_cluster("a", "b") as cluster, producing(cluster) as producer:
            watcher = Watcher()
            producer.add_hook(watcher)
            cluster["a"].answers = [ResponseCode.SYSTEM_ERROR]
            cluster["b"].answers = [ResponseCode.SYSTEM_ERROR]
            result = await producer.send(ORDER)
            first, second = watcher.seen[1][1], watcher.seen[3][1]
            assert first != second
            assert watcher.seen == [
                ("before", first, None, None),
                ("after", first, None, Refused),
                ("before", second, None, None),
                ("after", second, None, Refused),
                ("before", first, None, None),
                ("after", first, result, None),
            ]
            del watcher.seen[:]
            outcomes = []
            producer.send_soon(ORDER, outcomes.append)
            await producer.flush()
            assert watcher.seen[1][2] == outcomes[0]

    run(test)


def test_a_failing_hook_does_not_stop_the_send(caplog):
    class Broken:
        def before_send(self, context):
            raise ValueError("before")

        def after_send(self, context):
            raise ValueError("after")

    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            producer.add_hook(Broken())
            assert (await producer.send(ORDER)).status is SendStatus.OK

    run(test)
    assert caplog.text.count("a send hook failed") == 2


def test_a_check_forbids_sends():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:

            def check(context):
                if b"secret" in context.messages[0].body:
                    raise BadMessage("no secrets here")

            producer.add_check(check)
            await producer.send(ORDER)
            for send in (producer.send, producer.send_oneway):
                with pytest.raises(BadMessage, match="no secrets"):
                    await send(Message("orders", b"a secret"))
        assert len(cluster.sends) == 1

    run(test)


def test_the_fault_table_avoids_a_broker_that_failed():
    async def test():
        settings = config(send_latency_fault_enable=True)
        # By a clock that stands still nobody is slow.
        async with (
            fake_cluster("a", "b") as cluster,
            cluster.session(ManualClock()) as session,
            Producer(settings, session=session) as producer,
        ):
            cluster["a"].answers = [ResponseCode.SYSTEM_ERROR]
            for _ in range(8):
                await producer.send(ORDER)
        assert len(cluster["a"].sends) == 1
        assert len(cluster["b"].sends) == 8

    run(test)
