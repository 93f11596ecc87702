"""A full disk left no line in the log, neither when sends were refused nor when they went on."""

import logging

from broker.whole import FOLDER, at_broker
from cometmq.protocol.codes import ResponseCode

REFUSED = ResponseCode.SERVICE_NOT_AVAILABLE
TIMER_MS = 500


def lines(caplog):
    return [each.getMessage() for each in caplog.records if "of producers" in each.getMessage()]


def test_a_disk_without_room_for_a_file_is_logged_when_it_begins_and_when_it_ends(caplog):
    caplog.set_level(logging.INFO)

    async def story(whole):
        whole.make_topic("T")
        assert (await whole.send()).code == 0
        whole.disk.room = 0
        while (await whole.send(body=bytes(1000))).code == 0:
            pass
        for _ in range(50):
            assert (await whole.send(body=bytes(1000))).code == REFUSED
            await whole.clock.advance(TIMER_MS)
        (begun,) = lines(caplog)
        assert f"refused: no room in {FOLDER / 'commitlog'} for another file of the log" in begun
        assert "of 65536 bytes, 0 are free" in begun
        assert "fileReservedTime" in begun
        whole.disk.room = 10 << 20
        await whole.clock.advance(3 * TIMER_MS)
        for _ in range(50):
            assert (await whole.send(body=bytes(1000))).code == 0
        _, ended = lines(caplog)
        assert "accepted again" in ended
        assert str(FOLDER / "commitlog") in ended

    at_broker(story, store_settings={"flush_interval_commit_log": TIMER_MS})


def test_a_disk_past_its_ratio_is_logged_when_it_begins_and_when_it_ends(caplog):
    caplog.set_level(logging.INFO)

    async def story(whole):
        whole.make_topic("T")
        whole.disk.used_ratio = lambda folder: 0.93
        for _ in range(5):
            await whole.clock.advance(1_000)
            assert (await whole.send()).code == REFUSED
        (begun,) = lines(caplog)
        for part in ("93.0%", str(FOLDER), "90 %", "free", "fileReservedTime", "diskMaxUsedSpace"):
            assert part in begun
        whole.disk.used_ratio = lambda folder: 0.5
        for _ in range(5):
            await whole.clock.advance(1_000)
            assert (await whole.send()).code == 0
        _, ended = lines(caplog)
        assert "accepted again" in ended
        assert "50.0%" in ended

    at_broker(story, store_settings={"clean_resource_interval": 1_000})
