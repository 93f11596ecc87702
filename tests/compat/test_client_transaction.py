"""Apache's transaction producer: half messages that are decided at once, when asked, or never."""

from collections import Counter

import pytest

from peers.clusters import QUICK

pytestmark = pytest.mark.apache

STORIES = ("Transaction", "CheckedBack", "NeverDecided")


def check_committed(story, observed, wanted):
    """Each once; or more, if a question crossed its end: on a busy machine that happens."""
    stored = Counter(line["body"] for line in observed.of(story, "stored"))
    checked = Counter(line["body"] for line in observed.of(story, "checked"))
    assert stored.keys() == wanted
    assert all(1 <= count <= 1 + checked[body] for body, count in stored.items())


def test_committed_ones_are_there_and_the_other_is_not(observed):
    sent = observed.of("Transaction", "sent")
    assert [line["state"] for line in sent] == [
        "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "COMMIT_MESSAGE",
    ]  # fmt: skip
    stored = observed.of("Transaction", "stored")
    check_committed("Transaction", observed, {"commit-0", "commit-2"})
    for line in stored:
        assert line["keys"] == f"key-{line['body'][-1]}"
        assert line["msgId"] in {one["msgId"] for one in sent}
        assert line["properties"]["TRAN_MSG"] == "true"
        assert line["properties"]["PGROUP"] == "Transaction-makers-tx"


def test_the_undecided_are_asked_for(observed):
    checked = observed.of("CheckedBack", "checked")
    assert {line["body"] for line in checked} == {
        "check-commit-0", "check-rollback-1", "check-commit-2",
    }  # fmt: skip
    assert {line["topic"] for line in checked} == {"CheckedBack"}
    assert checked[0]["properties"]["TRANSACTION_CHECK_TIMES"] == "1"
    check_committed("CheckedBack", observed, {"check-commit-0", "check-commit-2"})


def test_who_never_decides_is_asked_so_often_and_no_more(observed):
    checked = observed.of("NeverDecided", "checked")
    times = [line["properties"]["TRANSACTION_CHECK_TIMES"] for line in checked]
    assert times == [str(i + 1) for i in range(QUICK["transactionCheckMax"])]
    (stored,) = observed.of("NeverDecided", "stored")
    assert (stored["topic"], stored["body"]) == ("TRANS_CHECK_MAX_TIME_TOPIC", "check-never-0")
    (count,) = observed.of("NeverDecided", "stored in topic")
    assert count["count"] == 0
