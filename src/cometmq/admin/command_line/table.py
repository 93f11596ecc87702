"""Renders results: text tables for people; JSON, YAML and CSV for programs.

A list of rows is rendered as a table. A single row is a block of `Name: value` lines, after the
tables that it contains. A map is a block of `key : value` lines; a map of maps is one titled block
of `key = value` lines per map.

Names, bodies and remarks are untrusted. Their control characters are escaped in every format, and
in text they cannot forge a line.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cometmq.admin.rows import Row
from cometmq.errors import BadSetting
from cometmq.printable import json_text, one_line, some_lines

_GAP = "  "
_NOTHING = "-"
_RULE = "=" * 12
_WORDS = {
    "addr": "Addr",
    "ip": "IP",
    "rt": "RT",
    "tps": "TPS",
    "ms": "(ms)",
    "id": "ID",
    "qid": "QID",
    "commitlog": "CommitLog",
}
_SHORT = {"queue_id": "QID", "broker_id": "BID"}  # column headings

Record = dict[str, Any]


def render(value: object, form: str) -> str:
    """Render a value in one of FORMS. The text ends with a line break unless it is empty."""
    text = FORMS[form](value)
    return text if not text or text.endswith("\n") else text + "\n"


def plain(value: object) -> Any:
    """Convert a value to dicts, lists and scalars."""
    if isinstance(value, Row):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {wire: plain(getattr(value, name)) for name, wire in names}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)  # a Time becomes a plain number
    return value


def heading(name: str) -> str:
    """The heading of a field: `broker_name` becomes Broker Name."""
    return " ".join(_WORDS.get(word, word.capitalize()) for word in name.split("_"))


def _cell(value: object) -> str:
    if value is None or value == "":
        return _NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, dict):
        pairs = (f"{one_line(str(key))}={_cell(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return ",".join(map(_cell, value)) or _NOTHING
    return one_line(str(value))


def _text(value: object) -> str:
    if isinstance(value, list):
        return _list_text(value)
    if isinstance(value, Row):
        return _block(value)
    if isinstance(value, dict):
        return _map_text(value)
    return _cell(value)


def _list_text(items: list[Any]) -> str:
    if not items or not isinstance(items[0], Row):
        return "\n".join(map(_cell, items))
    layout = items[0].layout
    if layout == "block":
        return "\n\n".join(map(_block, items))
    if layout == "line":
        return "\n".join(map(_line, items))
    return _table(items)


def _table(rows: list[Row]) -> str:
    names = rows[0].__struct_fields__
    lines = [[f"#{_SHORT.get(name) or heading(name)}" for name in names]]
    lines += [[_cell(getattr(row, name)) for name in names] for row in rows]
    return _aligned(lines)


def _aligned(lines: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _line(row: Row) -> str:
    cells = ((name, getattr(row, name)) for name in row.__struct_fields__)
    return " ".join(
        f"{heading(name).upper().replace(' ', '')}: {_cell(value)}"
        for name, value in cells
        if value is not None
    )


def _block(row: Row) -> str:
    """The row's tables, then its values; the other way round with layout "block"."""
    parts = []
    own: list[tuple[str, str]] = []
    for name in row.__struct_fields__:
        value = getattr(row, name)
        if _is_part(value, row.layout):
            parts.append((heading(name), _text(value)))
        elif value is not None:
            own.append((f"{heading(name)}:", _indented(value)))
    width = max((len(name) for name, _ in own), default=0)
    lines = "\n".join(f"{name.ljust(width)} {value}" for name, value in own)
    texts = [text for _, text in parts]
    if len(parts) > 1:
        texts = [f"{title}:\n{text}" for title, text in parts]
    ordered = [lines, *texts] if row.layout == "block" else [*texts, lines]
    return "\n\n".join(filter(None, ordered))


def _indented(value: object) -> str:
    """Indent the lines after the first, so that they do not look like `Name: value`."""
    if not isinstance(value, str) or "\n" not in value:
        return _cell(value)
    return "\n    ".join(map(one_line, value.rstrip("\n").split("\n")))


def _is_part(value: object, layout: str) -> bool:
    """Is the value rendered as a separate table or block?"""
    if isinstance(value, dict):
        return bool(value) and layout != "block"
    return isinstance(value, list) and bool(value) and isinstance(value[0], Row)


def _map_text(values: Record) -> str:
    if not any(isinstance(value, dict) for value in values.values()):
        return _pairs(values, ":")
    return "\n\n".join(
        f"{_RULE}{one_line(key)}{_RULE}\n{_pairs(value, '=')}" for key, value in values.items()
    )


def _pairs(values: Record, sign: str) -> str:
    shown = [(one_line(str(key)), value) for key, value in values.items()]
    width = max((len(key) for key, _ in shown), default=0)
    return "\n".join(
        f"{key.ljust(width)} {sign} {'' if value == '' else _cell(value)}".rstrip()
        for key, value in shown
    )


def _json(value: object) -> str:
    from msgspec import json

    return json_text(json.format(json.encode(plain(value)), indent=2).decode())


def json_line(value: object) -> str:
    """A value as one line of JSON."""
    from msgspec import json

    return json_text(json.encode(plain(value)).decode()) + "\n"


def _yaml(value: object) -> str:
    from yaml import safe_dump

    text: str = safe_dump(plain(value), sort_keys=False, allow_unicode=True)
    return text.removesuffix("...\n")


def _csv(value: object) -> str:
    from csv import writer
    from io import StringIO

    made = StringIO()
    lines = writer(made, lineterminator="\n")
    lines.writerows(_csv_lines(value))
    return made.getvalue()


def _csv_lines(value: object) -> Iterator[Iterable[object]]:
    records = plain(value)
    if isinstance(records, dict):
        tables = [item for item in records.values() if isinstance(item, list)]
        if len(tables) > 1 or any(isinstance(item, dict) for item in records.values()):
            raise BadSetting("this result is more than one table: use json or yaml")
        if isinstance(value, dict) and not tables:
            yield from (map(_csv_cell, pair) for pair in records.items())
            return
        records = tables[0] if tables else [records]
    elif not isinstance(records, list):
        records = [records]
    if records and isinstance(records[0], dict):
        yield records[0].keys()
    for record in records:
        yield map(_csv_cell, record.values() if isinstance(record, dict) else [record])


def _csv_cell(value: object) -> object:
    """A text keeps its line breaks, because CSV quotes them."""
    if value is None:
        return ""
    if isinstance(value, str):
        return some_lines(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else _cell(value)


FORMS: dict[str, Callable[[object], str]] = {  # as in usage.py
    "table": _text,
    "json": _json,
    "yaml": _yaml,
    "csv": _csv,
}
