"""Squarified treemap: rectangles with given areas that are as close to squares as possible."""

from collections.abc import Sequence

Area = tuple[float, float, float, float]  # x, y, width, height


def squarified(sizes: Sequence[float], width: float, height: float) -> list[Area]:
    """Return a rectangle for each size. Sizes must be positive and in descending order.

    Rows are placed along the shorter side of the remaining area. A size joins a row while this does
    not worsen the worst aspect ratio of the row.
    """
    total = sum(sizes)
    areas = [size * width * height / total for size in sizes]
    x, y, found, at = 0.0, 0.0, list[Area](), 0
    while at < len(areas):
        side = min(width, height)
        end = at + 1
        while end < len(areas) and _worst(areas[at : end + 1], side) <= _worst(areas[at:end], side):
            end += 1
        row = areas[at:end]
        depth = sum(row) / side
        along = 0.0
        for area in row:
            length = area / depth
            if width >= height:
                found.append((x, y + along, depth, length))
            else:
                found.append((x + along, y, length, depth))
            along += length
        if width >= height:
            x, width = x + depth, max(width - depth, 1e-9)
        else:
            y, height = y + depth, max(height - depth, 1e-9)
        at = end
    return found


def _worst(row: Sequence[float], side: float) -> float:
    """Return the worst aspect ratio of a row; 1 is a square."""
    depth = sum(row) / side
    return max(max(depth * depth / area, area / (depth * depth)) for area in row)
