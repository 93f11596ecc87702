"""Members of a group hear that it has changed: all of them, once for many changes of one moment."""

import asyncio

import msgspec

from broker.whole import at_broker
from cometmq.errors import Unreachable
from cometmq.protocol.codes import RequestCode

NOTICE = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


def heard(link, group="G"):
    notices = [told for told in link.told if told.code == NOTICE]
    return len([told for told in notices if told.header.consumer_group == group])


def test_every_member_hears_of_one_that_comes_and_one_that_goes():
    async def story(whole):
        first = await whole.consume(client_id="c1", port=1)
        assert heard(first) == 1
        second = await whole.consume(client_id="c2", port=2)
        assert (heard(first), heard(second)) == (2, 1)
        whole.notices.groups_changed(whole.clients.drop(second))
        await whole.clock.advance(0)
        assert (heard(first), heard(second)) == (3, 1)

    at_broker(story)


def test_a_heartbeat_without_changes_notifies_no_member():
    async def story(whole):
        first = await whole.consume(client_id="c1", port=1)
        link = whole.clients.links_of("G")[0]
        assert link is first
        before = heard(first)
        whole.notices.groups_changed([])
        await whole.clock.advance(0)
        assert heard(first) == before

    at_broker(story)


def test_changes_in_quick_succession_cause_one_notification():
    async def story(whole):
        first = await whole.consume(client_id="c1", port=1)
        first.told.clear()
        for _ in range(10):
            whole.notices.groups_changed(["G"])
        await whole.clock.advance(0)
        assert heard(first) == 1

    at_broker(story)


def test_an_unreachable_member_does_not_delay_the_others(caplog):
    async def story(whole):
        gone = await whole.consume(client_id="c1", port=1)
        gone.answer = Unreachable("gone")
        second = await whole.consume(client_id="c2", port=2)
        assert heard(second) == 1
        assert "failed" not in caplog.text

    at_broker(story)


def test_a_deaf_member_does_not_keep_the_others_waiting():
    async def story(whole):
        deaf = await whole.consume(client_id="c1", port=1)
        forever = asyncio.Event()

        async def never(*_, **__):
            await forever.wait()

        deaf.send_oneway = never
        second = await whole.consume(client_id="c2", port=2)
        assert heard(second) == 1

    at_broker(story)


def test_notices_can_be_switched_off_for_all_and_for_a_group():
    async def story(whole):
        link = await whole.consume()
        link.told.clear()
        quiet = msgspec.structs.replace(
            whole.groups.get("G"), notify_consumer_ids_changed_enable=False
        )
        whole.groups.put(quiet)
        whole.notices.groups_changed(["G"])
        await whole.clock.advance(0)
        assert heard(link) == 0

    at_broker(story)

    async def silent(whole):
        assert heard(await whole.consume()) == 0

    at_broker(silent, notify_consumer_ids_changed_enable=False)
