"""Sends that an overloaded broker refused left no line in its log."""

import asyncio
import logging

from broker.whole import at_broker, send_header
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.refusal_log import QUIET_MS
from cometmq.store.config import FlushDiskType

BUSY = ResponseCode.SYSTEM_BUSY


def lines(caplog):
    texts = [each.getMessage() for each in caplog.records]
    return [text for text in texts if "are refused" in text or "accepted again" in text]


async def assert_one_line_then_the_end(whole, caplog, refuse, begins):
    """Ten refusals are one line; another comes once there was none for a while."""
    for _ in range(10):
        assert (await refuse()).code == BUSY
        await whole.clock.advance(QUIET_MS // 2)
    (begun,) = lines(caplog)
    assert begins in begun
    await whole.clock.advance(2 * QUIET_MS)
    _, ended = lines(caplog)
    assert "accepted again refused=10" in ended


def test_sends_that_waited_too_long_are_logged(caplog):
    caplog.set_level(logging.INFO)

    async def story(whole):
        whole.make_topic()

        async def late():
            received_ms = whole.clock.wall_ms() - 201
            code = RequestCode.SEND_MESSAGE_V2
            return await whole.ask(code, send_header(), b"x", received_ms=received_ms)

        await assert_one_line_then_the_end(whole, caplog, late, "waitTimeMillsInSendQueue=200")

    at_broker(story)


def test_a_busy_page_cache_is_logged(caplog):
    caplog.set_level(logging.INFO)

    async def story(whole):
        whole.make_topic()

        async def after_a_slow_write():
            now_ms = whole.clock.wall_ms()
            whole.page_cache.wrote(now_ms - 1_001, now_ms, 1_000)
            return await whole.send()

        await assert_one_line_then_the_end(
            whole, caplog, after_a_slow_write, "osPageCacheBusyTimeOutMills=1000"
        )

    at_broker(story)


def test_a_full_lane_is_logged(caplog):
    caplog.set_level(logging.INFO)

    async def story(whole):
        whole.make_topic()
        await whole.topics.file.save()
        whole.disk.hold()
        waiting = [asyncio.ensure_future(whole.begin_send()) for _ in range(3)]
        await whole.clock.advance(0)
        for _ in range(10):
            assert (await whole.send()).code == BUSY
        (begun,) = lines(caplog)
        assert "send lane, its limit, sendThreadPoolQueueCapacity=3" in begun
        whole.disk.release()
        await asyncio.gather(*waiting)
        await whole.clock.advance(QUIET_MS)
        _, ended = lines(caplog)
        assert "requests of the send lane are accepted again refused=10 " in ended

    at_broker(
        story,
        store_settings={"flush_disk_type": FlushDiskType.SYNC_FLUSH},
        send_thread_pool_queue_capacity=3,
    )
