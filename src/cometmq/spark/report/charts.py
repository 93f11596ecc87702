"""Charts of job results as PNG files, readable in grayscale, with units on the axes.

Files are replaced atomically, because a job with --every redraws its charts.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from cometmq.spark.report.treemap import squarified

_SERIES_MAX = 8  # more are hard to distinguish
_AREAS_MAX = 24
_SIZE = (9.0, 4.8)  # inches
_NAME_MAX = 40
_TICKS_MAX = 30
_ASPECT = (100.0, 52.0)  # size of the treemap, with about the aspect ratio of the chart
_LETTER = (0.95, 3.4)  # width and height of a letter, in units of the treemap
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
    """Draw bars of (category, series, count). Series are stacked.

    On a logarithmic axis, series are side by side, and each bar is labeled with its count.
    """
    axes, save = _axes(path, title, None if found else "no data")
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
    """Label the axes: counts on one, categories on the other."""
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
    axes.set_xlim(-0.7, max(count, 5) - 0.3)  # limits the width of a single bar
    axes.set_xlabel(place)
    axes.grid(visible=False, axis="x")
    if logarithmic:
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(0, axes.get_ylim()[1] * 2)  # room for the labels
    axes.set_ylabel(f"{unit} (logarithmic)" if logarithmic else unit)
    axes.yaxis.set_major_formatter(_thousands())


def lines(
    path: Path, title: str, found: Sequence[tuple[str, datetime, int | None]], unit: str
) -> Path:
    """Draw lines of (series, time, count). Counts of the same time are summed."""
    axes, save = _axes(path, title, None if found else "no data yet")
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
    """Draw cumulative shares of (series, value, count)."""
    axes, save = _axes(path, title, None if found else "no data")
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
    """Draw a heat map of (time in ms, exponent of 2, count). Darker cells have higher counts."""
    axes, save = _axes(path, title, None if found else "no data")
    if not found:
        return save()
    from matplotlib.colors import LogNorm

    times = sorted({at for at, _, _ in found})
    step = min((b - a for a, b in pairwise(times)), default=60_000)
    low = max(0, min(power for _, power, _ in found) - 1)
    shown = range(low, max(power for _, power, _ in found) + 2)  # with a margin
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
    """Draw a treemap of (name, bytes). Small areas are merged; marked ones have another color."""
    chosen = [(name, size) for name, size in found if size > 0]
    chosen.sort(key=lambda each: -each[1])
    rest = sum(size for _, size in chosen[_AREAS_MAX:])
    chosen = chosen[:_AREAS_MAX] + ([("others", rest)] if rest else [])
    axes, save = _axes(path, title, None if chosen else "no data")
    total, marked = sum(size for _, size in chosen), set(marked)
    axes.set_axis_off()
    axes.set_xlim(0, _ASPECT[0])
    axes.set_ylim(_ASPECT[1], 0)
    for (name, size), area in zip(
        chosen, squarified([size for _, size in chosen], *_ASPECT), strict=True
    ):
        x, y, width, height = area
        color = _WARNING if name in marked else _PALE
        label = "gaps or damage" if name in marked else "intact"
        axes.add_patch(_rectangle(area, color, label))
        share = f"{_digits(100 * size / total)} %"
        text = _fitting([name, _bytes(size), share], width, height)
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=8)
    return save()


def _fitting(rows: list[str], width: float, height: float) -> str:
    """Return as much of a label as fits into an area."""
    letters, count = int(width / _LETTER[0]), int(height / _LETTER[1])
    if letters < 4 or count < 1:
        return ""
    cut = [row if len(row) <= letters else row[: letters - 1] + "…" for row in rows]
    return "\n".join(cut[:count])


def _rectangle(area: tuple[float, float, float, float], color: str, label: str) -> Any:
    from matplotlib.patches import Rectangle

    x, y, width, height = area
    return Rectangle(
        (x, y), width, height, facecolor=color, edgecolor="white", linewidth=2, label=label
    )


def _largest(found: Sequence[tuple[str, str, int]]) -> list[tuple[str, dict[str, int]]]:
    """Group by series, in order. If there are too many, merge all but the largest as `others`."""
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
    """Return new axes and a function that saves the file. `empty` is shown if there is no data."""
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
    """Format a time axis with the shortest unambiguous labels."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    if len(moments) == 1:
        (only,) = moments
        axes.set_xlim(only - timedelta(minutes=1), only + timedelta(minutes=1))
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _short(name: str) -> str:
    """Shorten a label. A leading space lets matplotlib show labels that begin with `_`."""
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
