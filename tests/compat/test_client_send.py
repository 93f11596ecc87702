"""Apache's producer: every way to send, and what is stored."""

import pytest

from peers.clusters import LEVELS_MS

pytestmark = pytest.mark.apache

STORIES = (
    "Sync", "Async", "Oneway", "Batch", "Compressed", "Utf8", "Selected", "AutoMade", "Refused",
    "Delayed",
)  # fmt: skip
COMPRESSED = 1
WORDS = "消息 – ünïcödé 😀"


def place(line):
    return line["broker"], line["queue"], line["offset"]


def check_stored_where_told(sent, stored):
    assert {line["status"] for line in sent} == {"SEND_OK"}
    assert {place(line): line["msgId"] for line in sent} == {
        place(line): line["msgId"] for line in stored
    }
    assert len(stored) == len(sent)


def test_sync(observed):
    stored = observed.of("Sync", "stored")
    check_stored_where_told(observed.of("Sync", "sent"), stored)
    for line in stored:
        number = line["body"].removeprefix("sync-")
        assert (line["tags"], line["keys"]) == (f"tag{int(number) % 2}", f"k{number} all")
        assert line["properties"]["number"] == number
        assert line["properties"]["UNIQ_KEY"] == line["msgId"]
        assert "WAIT" not in line["properties"]
        assert line["bornMs"] <= line["storedMs"]


def test_async(observed):
    stored = observed.of("Async", "stored")
    check_stored_where_told(observed.of("Async", "sent"), stored)
    assert {line["body"] for line in stored} == {f"async-{i}" for i in range(50)}


def test_oneway(observed):
    bodies = sorted(line["body"] for line in observed.of("Oneway", "stored"))
    assert bodies == [f"oneway-{i}" for i in range(10)]


def test_a_batch_is_ten_messages_in_one_queue(observed):
    (sent,) = observed.of("Batch", "sent")
    stored = observed.of("Batch", "stored")
    assert sent["status"] == "SEND_OK"
    assert sent["msgId"].split(",") == [line["msgId"] for line in stored]
    assert len(sent["offsetMsgId"].split(",")) == 10
    first = sent["offset"]
    assert [place(line) for line in stored] == [
        (sent["broker"], sent["queue"], first + i) for i in range(10)
    ]
    assert [(line["body"], line["tags"], line["keys"]) for line in stored] == [
        (f"batch-{i}", f"tag{i % 2}", f"k{i}") for i in range(10)
    ]


def test_a_large_body_travels_and_rests_compressed(observed):
    (made,) = observed.of("Compressed", "made")
    (stored,) = observed.of("Compressed", "stored")
    assert (stored["size"], stored["hash"]) == (made["size"], made["hash"])
    assert stored["sysFlag"] & COMPRESSED
    assert stored["storeSize"] < made["size"] / 10


def test_text_of_every_script(observed):
    (stored,) = observed.of("Utf8", "stored")
    assert (stored["body"], stored["tags"], stored["keys"]) == (WORDS, "标签", "钥匙")
    assert stored["properties"]["名"] == WORDS


def test_a_key_chooses_its_queue(observed):
    stored = observed.of("Selected", "stored")
    check_stored_where_told(observed.of("Selected", "sent"), stored)
    numbers = {}
    for line in stored:
        numbers.setdefault((line["broker"], line["queue"]), []).append(
            int(line["body"].removeprefix("selected-"))
        )
    assert sorted(numbers.values()) == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]


def test_a_topic_is_made_by_its_first_message(observed):
    check_stored_where_told(observed.of("AutoMade", "sent"), observed.of("AutoMade", "stored"))


def test_what_is_too_large_is_refused_and_not_stored(observed):
    (refused,) = observed.of("Refused", "refused")
    assert refused["code"] == 13
    (stored,) = observed.of("Refused", "stored")
    assert stored["size"] == 3 << 20


def test_each_level_waits_its_time(observed):
    taken = observed.of("Delayed", "Delayed-takers")
    assert sorted(line["body"] for line in taken) == ["level-1", "level-2", "level-3", "level-3"]
    sent = {line["msgId"]: line for line in observed.of("Delayed", "sent")}
    for line in taken:
        level = int(line["body"].removeprefix("level-"))
        assert line["storedMs"] - line["bornMs"] >= LEVELS_MS[level - 1]
        properties = line["properties"]
        assert properties["DELAY"] == str(level)
        assert properties["REAL_TOPIC"] == line["topic"] == "Delayed"
        assert properties["REAL_QID"] == str(line["queue"])
        assert sent[line["msgId"]]["queue"] == line["queue"]
