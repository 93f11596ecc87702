"""Pictures of what jobs found: few marks, axes with units, readable in grey.

A job that goes on draws its picture again and again: a file is replaced as a whole.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from cometmq.spark.report.treemap import squarified

_SERIES_MAX = 8  # more than that nobody tells apart
_AREAS_MAX = 24
_SIZE = (9.0, 4.8)  # inches
_NAME_MAX = 40
_TICKS_MAX = 30
_ASPECT = (100.0, 52.0)  # of the treemap, about that of the picture
_LETTER = (0.95, 3.4)  # width and height of a small letter in it
_PALE, _WARNING = "#9ecae1", "#fdae6b"

Save = Callable[[], Path]


def bars(
    path: Path,
    title: str,
    found: Sequence[tuple[str, str, int]],
    unit: str,
    *,
    place: str,
    across: bool = False,
    logarithmic: bool = False,
) -> Path:
    """Of (place, series, number): a bar a place, the largest series stacked in it.

    On a logarithmic axis series stand side by side, and each bar has its number.
    """
    axes, save = _axes(path, title, None if found else "nothing was found")
    places = list(dict.fromkeys(each for each, _, _ in found))
    series = _largest(found)
    at = range(len(places))
    base = [0.0] * len(places)
    width = 0.8 / max(1, len(series)) if logarithmic else 0.6
    for rank, (name, values) in enumerate(series):
        numbers = [values.get(each, 0) for each in places]
        shift = (rank - (len(series) - 1) / 2) * width if logarithmic else 0
        middles = [each + shift for each in at]
        draw = axes.barh if across else axes.bar
        side = {"left" if across else "bottom": base} if not logarithmic else {}
        drawn = draw(middles, numbers, width, label=_short(name), **side)
        if logarithmic:
            axes.bar_label(drawn, [f"{number:,}" for number in numbers], padding=2, fontsize=8)
        else:
            base = [low + number for low, number in zip(base, numbers, strict=True)]
    _scale(axes, [_short(each) for each in places], unit, place, across, logarithmic)
    return save()


def _scale(
    axes: Any, names: list[str], unit: str, place: str, across: bool, logarithmic: bool
) -> None:
    """Numbers along one side, places along the other."""
    count = len(names)
    at = range(count)
    if across:
        axes.set_yticks(at, names)
        axes.set_ylim(max(len(names), 4) - 0.4, -0.6)
        axes.set_xlabel(unit)
        axes.set_ylabel(place)
        axes.xaxis.set_major_formatter(_thousands())
        axes.grid(visible=False, axis="y")
        return
    thin = -(-len(names) // _TICKS_MAX) or 1
    at, names = at[::thin], names[::thin]
    crowded = len(names) * max([len(name) for name in names], default=0) > 80
    axes.set_xticks(at, names, rotation=30 if crowded else 0, ha="right" if crowded else "center")
    axes.set_xlim(-0.7, max(count, 5) - 0.3)  # one alone is a bar too, not a wall
    axes.set_xlabel(place)
    axes.grid(visible=False, axis="x")
    if logarithmic:
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(0, axes.get_ylim()[1] * 2)  # room for the numbers
    axes.set_ylabel(f"{unit} (logarithmic)" if logarithmic else unit)
    axes.yaxis.set_major_formatter(_thousands())


def lines(
    path: Path, title: str, found: Sequence[tuple[str, datetime, int | None]], unit: str
) -> Path:
    """Of (series, time, number); a number at the same time again is added."""
    axes, save = _axes(path, title, None if found else "nothing was found yet")
    for name, values in _largest(
        [(start.isoformat(), name, count or 0) for name, start, count in found]
    ):
        moments = sorted(values)
        axes.plot(
            [datetime.fromisoformat(each) for each in moments],
            [values[each] for each in moments],
            marker="o",
            markersize=3,
            label=_short(name),
        )
    axes.set_ylabel(unit)
    axes.set_xlabel("time, UTC")
    axes.yaxis.set_major_formatter(_thousands())
    _times(axes, {start for _, start, _ in found})
    axes.set_ylim(bottom=0)
    return save()


def cumulative(
    path: Path, title: str, found: Sequence[tuple[str, int, int]], unit: str, share: str
) -> Path:
    """Of (series, value, how often): for each value, the share of what is not above it."""
    axes, save = _axes(path, title, None if found else "nothing was found")
    for name, values in _largest([(f"{value:020d}", name, count) for name, value, count in found]):
        total, passed, shares = sum(values.values()), 0, []
        for value in sorted(values):
            passed += values[value]
            shares.append(100 * passed / total)
        points = [int(value) for value in sorted(values)]
        axes.step(
            [points[0], *points], [0, *shares], where="post", label=f"{_short(name)} ({total:,})"
        )
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 102)
    axes.xaxis.set_major_formatter(_thousands())
    axes.set_xlabel(f"{unit} (logarithmic)")
    axes.set_ylabel(share)
    return save()


def heat(
    path: Path, title: str, found: Sequence[tuple[float, int, int]], unit: str, mark: str
) -> Path:
    """Of (time in ms, power of 2, how often): darker, where there were more."""
    axes, save = _axes(path, title, None if found else "nothing was found")
    if not found:
        return save()
    from matplotlib.colors import LogNorm

    times = sorted({at for at, _, _ in found})
    step = min((b - a for a, b in pairwise(times)), default=60_000)
    low = max(0, min(power for _, power, _ in found) - 1)
    shown = range(low, max(power for _, power, _ in found) + 2)  # with room around them
    columns = round((times[-1] - times[0]) / step) + 1
    cells = [[float("nan")] * columns for _ in shown]
    for at, power, count in found:
        cells[power - low][round((at - times[0]) / step)] = count
    begin = datetime.fromtimestamp(times[0] / 1000, UTC)
    edges = [begin + timedelta(milliseconds=step * column) for column in range(columns + 1)]
    rows = [power - 0.5 for power in (*shown, shown.stop)]
    most = max(count for _, _, count in found)
    drawn = axes.pcolormesh(edges, rows, cells, cmap="Greys", norm=LogNorm(0.5, max(2, most)))
    ticks = [10**digit for digit in range(len(str(most))) if 2 * 10**digit <= most or not digit]
    bar = axes.figure.colorbar(drawn, ax=axes, label=f"{mark} (logarithmic)")
    bar.set_ticks([*ticks, most] if most > 1 else ticks, minor=False)
    bar.ax.minorticks_off()
    bar.ax.yaxis.set_major_formatter(_thousands())
    axes.set_yticks(shown, [_up_to(power) for power in shown])
    axes.set_ylabel(unit)
    axes.set_xlabel("time, UTC")
    axes.grid(visible=False)
    _times(axes, set())
    return save()


def treemap(
    path: Path, title: str, found: Sequence[tuple[str, int]], marked: Iterable[str]
) -> Path:
    """Of (name, bytes): areas, the small ones as one; those that are marked in another colour."""
    chosen = [(name, size) for name, size in found if size > 0]
    chosen.sort(key=lambda each: -each[1])
    rest = sum(size for _, size in chosen[_AREAS_MAX:])
    chosen = chosen[:_AREAS_MAX] + ([("others", rest)] if rest else [])
    axes, save = _axes(path, title, None if chosen else "there is nothing in it")
    total, marked = sum(size for _, size in chosen), set(marked)
    axes.set_axis_off()
    axes.set_xlim(0, _ASPECT[0])
    axes.set_ylim(_ASPECT[1], 0)
    for (name, size), area in zip(
        chosen, squarified([size for _, size in chosen], *_ASPECT), strict=True
    ):
        x, y, width, height = area
        colour = _WARNING if name in marked else _PALE
        label = "gaps or damage" if name in marked else "whole"
        axes.add_patch(_rectangle(area, colour, label))
        share = f"{_digits(100 * size / total)} %"
        text = _fitting([name, _bytes(size), share], width, height)
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=8)
    return save()


def _fitting(rows: list[str], width: float, height: float) -> str:
    """As much of a label as an area has room for."""
    letters, count = int(width / _LETTER[0]), int(height / _LETTER[1])
    if letters < 4 or count < 1:
        return ""
    cut = [row if len(row) <= letters else row[: letters - 1] + "…" for row in rows]
    return "\n".join(cut[:count])


def _rectangle(area: tuple[float, float, float, float], colour: str, label: str) -> Any:
    from matplotlib.patches import Rectangle

    x, y, width, height = area
    return Rectangle(
        (x, y), width, height, facecolor=colour, edgecolor="white", linewidth=2, label=label
    )


def _largest(found: Sequence[tuple[str, str, int]]) -> list[tuple[str, dict[str, int]]]:
    """Series in the order in which they come; of very many the largest, and the others as one."""
    series: dict[str, dict[str, int]] = {}
    for place, name, number in found:
        values = series.setdefault(name, {})
        values[place] = values.get(place, 0) + number
    ordered = list(series.items())
    if len(ordered) > _SERIES_MAX:
        ordered.sort(key=lambda item: -sum(item[1].values()))
    rest: dict[str, int] = {}
    for _, values in ordered[_SERIES_MAX:]:
        for place, number in values.items():
            rest[place] = rest.get(place, 0) + number
    return ordered[:_SERIES_MAX] + ([("others", rest)] if rest else [])


def _axes(path: Path, title: str, empty: str | None) -> tuple[Any, Save]:
    """What to draw on, and how to have it written; a word in the middle, if there is nothing."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="both", alpha=0.25)
    axes.set_axisbelow(True)
    if empty:
        axes.text(0.5, 0.5, empty, transform=axes.transAxes, ha="center", color="grey")

    def save() -> Path:
        if empty:
            axes.tick_params(bottom=False, left=False, labelbottom=False, labelleft=False)
            axes.xaxis.get_offset_text().set_visible(False)
        marks, names = axes.get_legend_handles_labels()
        named = dict(zip(names, marks, strict=True))
        if len(named) > 1:
            figure.legend(
                named.values(),
                named.keys(),
                loc="outside lower center",
                ncols=4,
                frameon=False,
                fontsize=8,
            )
        spare = path.with_suffix(".part")
        figure.savefig(spare, dpi=130, format="png")
        return spare.replace(path)

    return axes, save


def _times(axes: Any, moments: set[datetime]) -> None:
    """No more words on the axis than are needed to tell times apart."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    if len(moments) == 1:
        (only,) = moments
        axes.set_xlim(only - timedelta(minutes=1), only + timedelta(minutes=1))
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _short(name: str) -> str:
    """A label that leaves room for the picture. One with an underscore first is shown too."""
    cut = name if len(name) <= _NAME_MAX else name[: _NAME_MAX - 1] + "…"
    return f" {cut}" if cut.startswith("_") else cut


def _up_to(power: int) -> str:
    return "≤ 1" if power <= 0 else f"≤ {2**power:,}"


def _bytes(size: int) -> str:
    number = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{_digits(number)} {unit}"
        number /= 1024
    return f"{_digits(number)} TiB"


def _digits(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _thousands() -> Any:
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep="")
