"""Values as text, JSON, YAML and CSV."""

import csv
import io
import json

import pytest
import yaml

from cometmq.admin.command_line.table import FORMS, heading, json_line, render
from cometmq.admin.command_line.usage import FORMS as OFFERED
from cometmq.admin.rows import Change, Row, Time, failed, is_failure, time_or_none
from cometmq.errors import BadSetting, Unreachable


class Queue(Row, frozen=True):
    broker_name: str
    queue_id: int
    stored: Time | None
    tps: float
    is_locked: bool = False


class Group(Row, frozen=True):
    queues: list[Queue]
    settings: dict[str, str]
    diff_total: int
    note: str | None = None


class Detail(Row, frozen=True):
    layout = "block"
    message_id: str
    properties: dict[str, str]
    keys: list[str]
    queues: list[Queue]


class Line(Row, frozen=True):
    layout = "line"
    msgid: str
    body: str | None


QUEUES = [Queue("broker-a", 0, Time(1_000), 1.234), Queue('b, "c"', 12, None, 0.0, True)]
GROUP = Group(QUEUES, {"a": "1"}, 7)


def test_forms_are_those_that_are_offered():
    assert tuple(FORMS) == OFFERED


def test_a_table_is_aligned_and_has_no_empty_cell():
    first, *rest = render(QUEUES, "table").splitlines()
    assert first.split("  ")[0] == "#Broker Name"
    assert first.split()[:2] == ["#Broker", "Name"] and "#QID" in first and "#TPS" in first
    starts = [first.index(mark) for mark in ("#QID", "#Stored", "#TPS", "#Is Locked")]
    assert all(line[start - 1] == " " != line[start] for line in rest for start in starts)
    assert rest[1].endswith("-                        0.00  true")


def test_times_are_local_to_people_and_numbers_to_programs():
    shown = str(Time(1_794_803_579_249))
    assert shown.endswith(",249") and shown.count(":") == 2
    assert json.loads(render(QUEUES, "json"))[0]["stored"] == 1000
    assert time_or_none(0) is None and time_or_none(-1) is None and time_or_none(5) == 5


@pytest.mark.parametrize("odd", [1_700_000_000_000_000_000, 10**20, -(10**17), 2**63 - 1])
def test_a_time_that_no_calendar_has_is_a_number(odd):
    assert str(Time(odd)) == str(odd)
    assert render([Queue("a", 0, Time(odd), 0.0)], "table").split()[-3] == str(odd)


def test_json_and_yaml_say_the_same():
    told = json.loads(render(GROUP, "json"))
    assert yaml.safe_load(render(GROUP, "yaml")) == told
    assert told["diffTotal"] == 7 and told["queues"][1]["brokerName"] == 'b, "c"'
    assert told["queues"][1]["isLocked"] is True and told["note"] is None


def test_csv_is_read_back():
    rows = list(csv.DictReader(io.StringIO(render(QUEUES, "csv"))))
    assert rows[1] == {
        "brokerName": 'b, "c"', "queueId": "12", "stored": "", "tps": "0.0", "isLocked": "true",
    }  # fmt: skip
    assert render(["a", "b"], "csv") == "a\nb\n"
    assert render({"a": "1", "b": "2"}, "csv") == "a,1\nb,2\n"
    assert render([], "csv") == ""


def test_csv_of_more_than_a_table_is_refused():
    with pytest.raises(BadSetting, match="json or yaml"):
        render(GROUP, "csv")
    with pytest.raises(BadSetting, match="json or yaml"):
        render({"a": {"b": "c"}}, "csv")


def test_one_thing_is_its_tables_and_then_its_own():
    said = render(GROUP, "table")
    assert said.startswith("Queues:\n#Broker Name") and "Settings:\na : 1" in said
    assert said.endswith("\n\nDiff Total: 7\n")


def test_blocks_and_lines():
    said = render([Detail("M1", {"a": "1", "b": "2"}, ["k"], QUEUES)], "table")
    assert said.startswith("Message ID: M1\nProperties: {a=1, b=2}\nKeys:       k\n\n#Broker Name")
    assert render([Line("M1", "x"), Line("M2", None)], "table") == "MSGID: M1 BODY: x\nMSGID: M2\n"


def test_maps_and_lists():
    assert render(["b", "a"], "table") == "b\na\n"
    assert render({"long": "1", "s": "2"}, "table") == "long : 1\ns    : 2\n"
    assert render({"a": {"bb": "1", "c": ""}}, "table").splitlines()[1:] == ["bb = 1", "c  ="]
    assert "=a=" in render({"a": {"b": "1"}}, "table")
    assert render([], "table") == "" and render([], "json") == "[]\n"


HOSTILE = "a\x1b[2J\r\nfake\x9b1m\x00\u2028"
SHOWN = r"a\x1b[2J\r\nfake\x9b1m\x00\u2028"


@pytest.mark.parametrize(
    "value",
    [
        [Queue(HOSTILE, 0, None, 0.0)], [Line(HOSTILE, HOSTILE)], [HOSTILE], HOSTILE,
        {HOSTILE: HOSTILE}, {HOSTILE: {HOSTILE: HOSTILE}}, Group([], {HOSTILE: HOSTILE}, 7),
    ],
)  # fmt: skip
def test_control_characters_of_a_peer_are_escaped(value):
    said = render(value, "table")
    assert said.isprintable() or said.replace("\n", "").isprintable(), said
    assert SHOWN in said and "\nfake" not in said


def test_a_text_of_several_lines_cannot_look_like_another_value():
    said = render(Group([], {}, 7, note="first\nDiff Total: 8\x1b[2J\n"), "table")
    assert said.splitlines() == [
        "Queues:     -", "Settings:   {}", "Diff Total: 7", "Note:       first",
        r"    Diff Total: 8\x1b[2J",
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_read_control_characters_as_they_came(form):
    said = render([Line("M1", HOSTILE)], form)
    assert said.replace("\n", "").isprintable(), said
    assert yaml.safe_load(said) == [{"msgid": "M1", "body": HOSTILE}]
    assert json_line(Line("M1", HOSTILE)).removesuffix("\n").isprintable()


def test_csv_keeps_lines_of_a_text_and_no_other_control_character():
    kept = 'two\r\nlines,\t"quoted"'
    for value in ([Line("M1", kept)], [kept], {"a": kept}):
        assert list(csv.reader(io.StringIO(render(value, "csv"), newline="")))[-1][-1] == kept
    hostile = render([Line("M1", "a\x1b[2J\rb\x9b")], "csv")
    assert hostile.splitlines()[1] == r"M1,a\x1b[2J\rb\x9b"


def test_headings():
    assert heading("avg_rt_ms") == "Avg RT (ms)"


def test_a_failure_anywhere_is_one():
    good, bad = Change("a", "b", "success"), Change("a", "b", failed(Unreachable("gone")))
    assert not is_failure([good]) and is_failure([good, bad])
    assert bad.outcome == "failed: gone"
    assert not is_failure({"a": 1}) and not is_failure("x")

    class Holder(Row, frozen=True):
        changes: list[Change]

    assert is_failure(Holder([bad])) and not is_failure(Holder([good]))
