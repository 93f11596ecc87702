"""Messages side by side: how long a listener may take, and what goes back."""

import asyncio
import threading

import pytest

from client.consumer.push_broker import PushBroker, Taken, closed, consuming, settle
from cometmq.client.consumer.shared.outcomes import Retry
from cometmq.protocol.bodies.consumer import ConsumeResult
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.records.properties import decode_properties


def broker_of():
    return PushBroker(**{"T": 1, "%RETRY%G": 1})


def test_to_stand_in_line_is_not_to_take_long():
    async def story():
        broker, taken = broker_of(), []

        async def slow(message):
            taken.append(message.text())
            if message.text() != "quick":  # after quick ones, more are given out
                await broker.clock.sleep_ms(500)

        broker.put("T", 0, b"quick")
        settings = {"consume_threads": 1, "consume_timeout": 2}
        async with consuming(broker, slow, **settings):
            broker.put("T", 0, *(b"%d" % each for each in range(12)))
            await broker.clock.advance(7_000)
            assert taken == ["quick", *map(str, range(12))]
            assert broker.sent_back == []

    asyncio.run(story())


def test_what_takes_long_is_sent_back_once():
    async def story():
        broker = broker_of()

        async def hangs(message):
            await asyncio.Event().wait()

        broker.put("T", 0, b"a")
        broker.delays_ms[RequestCode.CONSUMER_SEND_MSG_BACK] = 3_000
        async with consuming(broker, hangs, consume_timeout=2) as consumer:
            await broker.clock.advance(10_000)
            assert len(broker.sent_back) == 1
            assert consumer._member.offsets_of("T") == {broker.queue("T"): 1}
            await closed(broker, consumer)

    asyncio.run(story())


@pytest.mark.parametrize(("level", "times", "delay"), [(0, 1, "3"), (5, 1, "5"), (-1, 7, None)])
def test_a_copy_keeps_the_delay_that_was_chosen(level, times, delay):
    async def story():
        broker, taken = broker_of(), Taken(lambda message: Retry(level))
        broker.refuses[RequestCode.CONSUMER_SEND_MSG_BACK] = ResponseCode.SYSTEM_ERROR
        broker.put("T", 0, b"a")
        async with consuming(broker, taken, max_reconsume_times=7):
            ((header, _),) = broker.copies
        assert (header.reconsume_times, header.max_reconsume_times) == (times, 7)
        assert decode_properties(header.properties).get("DELAY") == delay

    asyncio.run(story())


def test_a_listener_that_an_operator_uses_does_not_keep_the_process():
    async def story():
        broker, daemons = broker_of(), []

        def plain(message):
            daemons.append(threading.current_thread().daemon)

        async with consuming(broker, plain) as consumer:
            broker.put("T", 0)
            await settle()
            broker.put("T", 0, b"a")
            (stored,) = broker.stored[broker.queue("T")]
            direct = await consumer._member.consume_directly(stored, "broker-a")
            assert direct.consume_result is ConsumeResult.SUCCESS
        assert daemons and all(daemons)

    asyncio.run(story())
