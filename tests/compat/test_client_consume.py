"""Apache's push, pull and lite pull consumers, with and without filters."""

from collections import Counter

import pytest

pytestmark = pytest.mark.apache

STORIES = (
    "Concurrent", "Broadcast", "Tags", "Sql", "SqlWrong", "Pull", "PullSql", "PullBlocks",
    "LiteSubscribe", "LiteAssign",
)  # fmt: skip

# Message i of ten: a = i, half = i / 2, colour red, blue, grey in turn, big = true from 8 on.
# A decimal never meets an integer; a text is true or false only beside TRUE or FALSE.
FOUND = {
    "a > 5": "6789",
    "a >= 5 AND a < 7": "56",
    "a BETWEEN 2 AND 4": "234",
    "a NOT BETWEEN 2 AND 8": "019",
    "a <> 0": "123456789",
    "half > 3.5": "89",
    "half > 3": "",
    "colour = 'red'": "0369",
    "colour = 'red' AND a <> 0": "369",
    "colour IN ('red', 'blue')": "0134679",
    "colour IN ('red')": "0369",
    "colour NOT IN ('red', 'blue')": "258",
    "TAGS = 'even'": "02468",
    "big IS NULL": "01234567",
    "big IS NOT NULL": "89",
    "big = TRUE": "89",
    "big <> FALSE": "89",
    "big": "",
    "NOT big = TRUE": "89",
    "NOT (a > 5)": "012345",
    "colour = 'red' OR big = TRUE": "03689",
    "(a = 1 OR a = 2) AND colour <> 'red'": "12",
    "a = '3'": "3",
    "3 < a AND a <= 4": "4",
    "-a < -8": "",
    "a = 1e0": "1",
    "absent = 1 OR a = 1": "1",
    "absent <> 1": "",
    "a > colour": "",
    "TRUE": "0123456789",
    "a = 3 = TRUE": "3",
    "'red' = colour": "0369",
    "5 < 3": "",
}


def bodies(lines):
    return [line["body"] for line in lines]


def test_push_takes_each_message_once(observed):
    """And the offsets reach the broker, or the story would not end."""
    taken = Counter(bodies(observed.of("Concurrent", "Concurrent-takers")))
    assert taken == {f"Concurrent-{i}": 2 for i in range(100)}


def test_broadcast_gives_all_to_each(observed):
    for member in ("Broadcast-member-0", "Broadcast-member-1"):
        taken = bodies(observed.of("Broadcast", member))
        assert sorted(taken) == sorted(f"Broadcast-{i}" for i in range(20))


def test_tags(observed):
    assert sorted(bodies(observed.of("Tags", "Tags-takers"))) == ["tag-blue", "tag-red", "tag-red"]
    assert len(observed.of("Tags", "Tags-all")) == 5


def test_push_by_sql(observed):
    """Both of what waited in the queue and of what woke the consumer."""
    assert sorted(bodies(observed.of("Sql", "taken"))) == ["sql-10", "sql-12", "sql-8"]


def test_every_operator_of_sql(observed):
    found = {line["expression"]: line["found"] for line in observed.of("PullSql", "pulled")}
    assert found == FOUND


def test_wrong_sql_is_told_at_the_start(observed):
    lines = observed.of("SqlWrong")
    assert len(lines) == 9
    assert {(line["event"], line.get("code")) for line in lines} == {("refused", 23)}


def test_pull(observed):
    lines = {line["event"]: line for line in observed.of("Pull")}

    def answer(event):
        line = lines[event]
        assert (line["min"], line["max"]) == (0, 40)
        return line["status"], line["next"], line["count"]

    assert answer("first") == ("FOUND", 10, 10)
    assert answer("most") == ("FOUND", 32, 32)
    assert answer("tag") == ("FOUND", 40, 20)
    assert answer("unmatched") == ("NO_MATCHED_MSG", 40, 0)
    assert answer("end") == ("NO_NEW_MSG", 40, 0)
    assert answer("beyond") == ("OFFSET_ILLEGAL", 40, 0)
    assert answer("sql") == ("FOUND", 40, 20)
    bounds = lines["bounds"]
    # By time: the message nearest to it.
    assert (bounds["min"], bounds["max"], bounds["past"], bounds["future"]) == (0, 40, 0, 39)
    assert bounds["earliest"] > 0
    # A new group on a young topic begins at its first message.
    assert [line["committed"] for line in observed.of("Pull", "offset")] == [0, 17]


def test_a_parked_pull_is_woken_by_what_it_wants(observed):
    (woken,) = observed.of("PullBlocks", "woken")
    assert (woken["status"], woken["count"], woken["next"]) == ("FOUND", 1, 2)
    assert bodies(observed.of("PullBlocks", "pulled")) == ["wakes"]
    (waited,) = observed.of("PullBlocks", "waited")
    assert 400 < waited["ms"] < 15_000, "the message, not the deadline of 20 s, ended it"


def test_lite_pull_goes_on_where_it_committed(observed):
    assert sorted(bodies(observed.of("LiteSubscribe", "first"))) == sorted(
        f"LiteSubscribe-{i}" for i in range(20)
    )
    assert sorted(bodies(observed.of("LiteSubscribe", "second"))) == sorted(
        f"LiteSubscribe-{i}" for i in range(10)
    )


def test_lite_pull_seeks(observed):
    assert bodies(observed.of("LiteAssign", "from 15")) == [f"lite-{i}" for i in range(15, 20)]
    assert bodies(observed.of("LiteAssign", "from begin")) == [f"lite-{i}" for i in range(20)]
    (by_time,) = observed.of("LiteAssign", "by time")
    assert by_time["offset"] in (9, 10), "either side of the pause"
    (at_end,) = observed.of("LiteAssign", "at end")
    assert at_end["count"] == 0
    assert bodies(observed.of("LiteAssign", "after end")) == ["lite-20"]
    (committed,) = observed.of("LiteAssign", "committed")
    assert committed["offset"] == 21
