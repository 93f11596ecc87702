"""A transactional message that was committed after a check had TRAN_PREPARED_QUEUE_OFFSET.

Apache's broker stores that property only for a message with a check immunity time. Producers, in
the check, and consumers saw it.
"""

import pytest

from broker.test_transactions import (
    AWAY,
    CHECKS,
    COMMIT,
    INTERVAL_MS,
    TIMEOUT_MS,
    answering,
    end,
    prepare,
)
from broker.works import at_work
from cometmq.protocol.records.message import unpack_record

NAME = "TRAN_PREPARED_QUEUE_OFFSET"


@pytest.mark.parametrize(
    ("immunity", "is_seen"), [({}, False), ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "6"}, True)]
)
def test_property_is_seen_only_with_an_immunity_time(immunity, is_seen):
    async def story(works):
        link = works.producer("makers")
        prepare(works, b"x", UNIQ_KEY="U", **immunity)
        await works.clock.advance(TIMEOUT_MS + INTERVAL_MS)
        question, *_ = link.asked
        assert (NAME in unpack_record(question[1]).properties) is is_seen
        await end(works, answering(question, COMMIT))
        (committed,) = works.stored("T", 2)
        assert (NAME in committed.properties) is is_seen
        assert committed.properties["TRANSACTION_CHECK_TIMES"] == "1"

    at_work(story)


def test_property_is_not_in_a_message_that_was_checked_too_often():
    async def story(works):
        prepare(works, b"x", UNIQ_KEY="U")
        await works.clock.advance((CHECKS + 2) * INTERVAL_MS)
        (away,) = works.stored(AWAY)
        assert NAME not in away.properties

    at_work(story)
