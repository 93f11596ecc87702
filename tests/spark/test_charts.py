"""Charts, with data and without."""

from datetime import UTC, datetime, timedelta

import pytest

from cometmq.spark.report import charts
from cometmq.spark.report.treemap import squarified
from spark.jobs_model import is_picture
from spark.rows import NEEDS

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_treemap_areas_match_sizes_and_do_not_overlap():
    sizes = [60, 30, 20, 10, 5, 5, 1]
    areas = squarified(sizes, 100, 50)
    for size, (x, y, width, height) in zip(sizes, areas, strict=True):
        assert width * height == pytest.approx(size * 5000 / sum(sizes))
        assert -1e-6 <= x <= x + width <= 100 + 1e-6
        assert -1e-6 <= y <= y + height <= 50 + 1e-6
    middles = [(x + w / 2, y + h / 2) for x, y, w, h in areas]
    for at, (x, y, width, height) in enumerate(areas):
        inside = [
            other
            for other, (mx, my) in enumerate(middles)
            if x < mx < x + width and y < my < y + height
        ]
        assert inside == [at], "areas must not overlap"
    assert squarified([3], 4, 4) == [(0, 0, 4, 4)]
    assert squarified([], 4, 4) == []


def test_small_series_are_merged():
    found = [(f"day {day}", f"topic {topic}", topic) for day in range(3) for topic in range(1, 20)]
    named = charts._largest(found)
    assert len(named) == 9
    assert named[0][0] == "topic 19"
    assert named[-1][0] == "others"
    total = sum(number for _, _, number in found)
    assert sum(number for _, values in named for number in values.values()) == total


def test_labels_are_shortened_to_fit():
    assert charts._fitting(["orders", "12 MiB", "40 %"], 50, 20) == "orders\n12 MiB\n40 %"
    assert charts._fitting(["orders", "12 MiB", "40 %"], 50, 4) == "orders"
    assert charts._fitting(["a-long-name-of-a-topic"], 9.6, 20) == "a-long-na…"
    assert charts._fitting(["orders"], 2, 20) == ""
    assert [charts._bytes(size) for size in (0, 1000, 1536, 5 << 30)] == [
        "0 B",
        "1000 B",
        "1.5 KiB",
        "5 GiB",
    ]


DRAWN = {
    "bars": lambda path, some: charts.bars(
        path, "t", some and [("a", "b", 3)], "messages", place="day"
    ),
    "many bars": lambda path, some: charts.bars(
        path, "t", some and [(f"day {n}", "b", n) for n in range(400)], "messages", place="day"
    ),
    "across": lambda path, some: charts.bars(
        path, "t", some and [("a", "b", 3), ("c", "d", 4)], "messages", place="day", across=True
    ),
    "logarithmic": lambda path, some: charts.bars(
        path,
        "t",
        some and [("a", "b", 0), ("c", "b", 4000)],
        "messages",
        place="state",
        logarithmic=True,
    ),
    "lines": lambda path, some: charts.lines(
        path, "t", some and [("_a", NOW + timedelta(hours=n), n) for n in range(50)], "messages"
    ),
    "a point": lambda path, some: charts.lines(path, "t", some and [("a", NOW, 1)], "messages"),
    "cumulative": lambda path, some: charts.cumulative(
        path, "t", some and [("a", 0, 3), ("a", 2000, 1)], "ms", "%"
    ),
    "heat": lambda path, some: charts.heat(
        path, "t", some and [(0.0, 0, 1), (60_000.0, 9, 700)], "ms", "calls"
    ),
    "treemap": lambda path, some: charts.treemap(
        path, "t", some and [(f"topic{n}", 2**n) for n in range(40)], {"topic39"}
    ),
}


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("some", [True, []], ids=["some", "nothing"])
def test_charts_are_written_as_png(name, some, tmp_path):
    pytest.importorskip("matplotlib", reason=NEEDS)
    path = tmp_path / "a.png"
    assert DRAWN[name](path, some) == path
    assert is_picture(path)
    assert [each.name for each in tmp_path.iterdir()] == ["a.png"]
