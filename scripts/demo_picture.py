"""Draws docs/pictures/demo.svg: runs the demonstration and saves its final screen.

python scripts/demo_picture.py
"""

import io
import sys
from pathlib import Path

from rich.console import Console

from cometmq.demo.show import run_demo

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "demo.svg"
_WIDTH = 96  # characters

# Like rich's format, but without its web fonts: each letter has a fixed width, so that any
# monospaced font works.
_FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> int:
    """Run the demonstration, and draw the picture if it succeeded. Returns the exit code."""
    console = Console(record=True, width=_WIDTH, highlight=False, file=io.StringIO())
    console.print("$ ./run demo")
    failures = run_demo(console, patience_s=30)
    if failures == 0:
        PICTURE.parent.mkdir(exist_ok=True)
        svg = console.export_svg(title="", code_format=_FORMAT, unique_id="demo")
        PICTURE.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")
    return failures


if __name__ == "__main__":
    sys.exit(main())
