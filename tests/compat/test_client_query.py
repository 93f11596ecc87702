"""Apache's client looks for messages, asks and is answered, and leaves a trace."""

import pytest

pytestmark = pytest.mark.apache

STORIES = ("Query", "Request", "Traced")


def bodies(lines):
    return sorted(line["body"] for line in lines)


def test_by_key(observed):
    assert bodies(observed.of("Query", "by own key")) == ["query-3"]
    assert bodies(observed.of("Query", "by shared key")) == [f"query-{i}" for i in range(6)]
    assert len(observed.of("Query", "two of them")) >= 2


def test_by_either_id(observed):
    last = observed.of("Query", "sent")[-1]
    for event in ("by unique id", "by offset id"):
        (found,) = observed.of("Query", event)
        assert (found["body"], found["msgId"]) == ("query-5", last["msgId"])
        assert (found["queue"], found["offset"]) == (last["queue"], last["offset"])


@pytest.mark.parametrize("event", ["absent", "earlier"])
def test_what_is_not_there(observed, event):
    (line,) = observed.of("Query", event)
    assert line["code"] == 208


def test_a_request_has_its_answer(observed):
    replies = observed.of("Request", "reply")
    assert [line["body"] for line in replies] == [f"answer to question {i}" for i in range(4)]
    assert {line["topic"] for line in replies} == {"DefaultCluster_REPLY_TOPIC"}
    assert {line["status"] for line in observed.of("Request", "answered")} == {"SEND_OK"}
    (unanswered,) = observed.of("Request", "timeout")
    assert unanswered["code"] == 10006


def test_send_and_consumption_leave_a_trace(observed):
    (sent,) = observed.of("Traced", "sent")
    traces = observed.of("Traced", "trace")
    kinds = set()
    for line in traces:
        # In whichever order: Java's clients have them in a set.
        assert sorted(line["keys"].split()) == sorted([sent["msgId"], "trace-key"])
        kinds |= {record.split("\x01")[0] for record in line["text"].split("\x02") if record}
    assert kinds == {"Pub", "SubBefore", "SubAfter"}
