"""Apache's broker stores WAIT=false with each message that a consumer sends back.

Its consumers, and dead letters, show that property; ours lacked it.
"""

import pytest

from broker.test_retry import LEVEL_MS, back, sends_back
from broker.works import at_work


@pytest.mark.parametrize("before", [{}, {"WAIT": "true"}])
def test_retry_has_wait_false(before):
    async def story(works):
        sent = works.put("T", 3, b"x", UNIQ_KEY="U1", **before)
        await sends_back(works, back(sent.physical_offset))
        await works.clock.advance(LEVEL_MS[2])
        (again,) = works.stored("%RETRY%g")
        assert again.properties["WAIT"] == "false"
        assert again.properties_text.count("WAIT") == 1
        await sends_back(works, back(again.physical_offset))
        await works.clock.advance(LEVEL_MS[3])
        _, third = works.stored("%RETRY%g")
        assert third.properties["WAIT"] == "false"

    at_work(story)


def test_dead_letter_has_wait_false():
    async def story(works):
        sent = works.put("T", 3, b"x", UNIQ_KEY="U1")
        await sends_back(works, back(sent.physical_offset, delay_level=-1))
        (dead,) = works.stored("%DLQ%g")
        assert dead.properties["WAIT"] == "false"

    at_work(story)
