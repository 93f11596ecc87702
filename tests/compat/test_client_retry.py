"""Apache's push consumer fails: the message comes again, later and later, and is buried at last."""

import pytest

from peers.clusters import LEVELS_MS

pytestmark = pytest.mark.apache

STORIES = ("Retry", "Dead", "SentBack")


def test_each_fails_as_often_as_it_wants(observed):
    tried = {}
    for line in observed.of("Retry", "tried"):
        tried.setdefault(line["body"], []).append(line)
    assert {body: [line["times"] for line in lines] for body, lines in tried.items()} == {
        f"Retry-{i}": list(range(i + 1)) for i in range(4)
    }
    for first, *again in tried.values():
        for line in again:
            assert (line["topic"], line["msgId"]) == ("Retry", first["msgId"])
            properties = line["properties"]
            assert properties["RETRY_TOPIC"] == "Retry"
            assert properties["REAL_TOPIC"] == "%RETRY%Retry-takers"
            assert properties["DELAY"] == str(2 + line["times"])
            assert properties["ORIGIN_MESSAGE_ID"]
        if again:
            # The first retry has level 3.
            assert again[0]["storedMs"] - first["storedMs"] >= LEVELS_MS[2]


def test_the_third_failure_of_two_allowed_is_a_dead_letter(observed):
    assert [line["times"] for line in observed.of("Dead", "tried")] == [0, 1, 2]
    first = observed.of("Dead", "tried")[0]
    (dead,) = observed.of("Dead", "stored")
    assert dead["topic"] == "%DLQ%Dead-takers"
    assert (dead["body"], dead["msgId"]) == (first["body"], first["msgId"])
    assert dead["properties"]["RETRY_TOPIC"] == "Dead"


def test_the_consumer_may_choose_the_delay(observed):
    first, second = observed.of("SentBack", "tried")
    assert (first["times"], second["times"]) == (0, 1)
    assert second["properties"]["DELAY"] == "2"
    assert second["storedMs"] - first["storedMs"] >= LEVELS_MS[1]
