"""Java's .properties format: parses a text, and changes single values without touching the rest.

A logical line is a key, a separator and a value. It may span several natural lines: each but the
last ends in an odd number of backslashes. `edit_properties` replaces the value of the last logical
line that sets a key, because the last one wins in Java, and appends the keys that the text lacks.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_NATURAL = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_BREAK = re.compile(r"\r\n|\r|\n")
_BLANK = " \t\f"
# Key, separator (white space, at most one of = and :), value. Escapes hide a separator.
_PARTS = re.compile(
    r"(?P<key>(?:\\.|[^\\ \t\f=:])*)(?P<separator>[ \t\f]*(?:[=:][ \t\f]*)?)(?P<value>.*)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


@dataclass(slots=True)
class _Line:
    """A logical line: its pieces with their positions in the text, and its end.

    A piece is a natural line without leading white space and without the continuing backslash.
    """

    pieces: list[tuple[int, str]]
    end: int = 0  # of its last natural line, without the line break
    is_open: bool = False  # the text ends with a continuing backslash

    @property
    def text(self) -> str:
        return "".join(piece for _, piece in self.pieces)

    def place(self, index: int) -> int:
        """The position in the text of a character of the logical line."""
        for start, piece in self.pieces:
            if index < len(piece):
                return start + index
            index -= len(piece)
        raise AssertionError("the index is inside the line")


def parse_properties(text: str) -> dict[str, str]:
    """`Properties.load`: the keys and values of a text. The last value of a key wins."""
    found = {}
    for line in _lines(text):
        parts = _parts(line.text)
        found[_unescape(parts["key"])] = _unescape(parts["value"])
    return found


def key_lines(text: str) -> dict[str, int]:
    """The number of the natural line, from 1, at which each key is set last."""
    found, number, counted_to = {}, 1, 0
    for line in _lines(text):
        start = line.pieces[0][0]
        number += len(_BREAK.findall(text, counted_to, start))
        counted_to = start
        found[_unescape(_parts(line.text)["key"])] = number
    return found


def edit_properties(text: str, changes: Mapping[str, str]) -> str:
    """Set values in a text; every other character stays."""
    lines = list(_lines(text))
    last: dict[str, _Line] = {}
    for line in lines:
        last[_unescape(_parts(line.text)["key"])] = line
    edits = []
    for key in changes.keys() & last.keys():
        line = last[key]
        parts = _parts(line.text)
        if _unescape(parts["value"]) != changes[key]:
            new = ("" if parts["separator"] else "=") + _escape(changes[key])
            edits.append((line.place(parts.start("value") - 1) + 1, line.end, new))
    edited = text
    for start, end, new in sorted(edits, reverse=True):
        edited = edited[:start] + new + edited[end:]
    added = [key for key in changes if key not in last]
    if added:
        edited = _with_line_end(edited, _line_break(text)) + "".join(
            f"{_escape_key(key)}={_escape(changes[key])}{_line_break(text)}" for key in added
        )
    assert parse_properties(edited) == parse_properties(text) | dict(changes), "changed no more"
    return edited


def _with_line_end(text: str, line_break: str) -> str:
    """The text, ended so that another line can be appended."""
    if text and text[-1] not in "\r\n":
        text += line_break
    lines = list(_lines(text))
    if not lines or not lines[-1].is_open:
        return text
    # A blank line ends the continuation. After \r, a \n is not a new line.
    return text + ("\r" if text[-1] == "\r" else line_break)


def _line_break(text: str) -> str:
    found = _BREAK.search(text)
    return found[0] if found else "\n"


def _lines(text: str) -> Iterator[_Line]:
    """The logical lines, without comments and blank lines."""
    line = _Line([])
    for natural in _NATURAL.finditer(text):
        content = natural[1].lstrip(_BLANK)
        if not line.pieces and (not content or content[0] in "#!"):
            continue
        if natural.start() == len(text):
            break
        continues = (len(content) - len(content.rstrip("\\"))) % 2 == 1
        piece = content[:-1] if continues else content
        if piece or line.pieces:  # a backslash alone does not start a line
            line.pieces.append((natural.end(1) - len(content), piece))
        line.end = natural.end(1)
        line.is_open = continues
        if not continues:
            yield line
            line = _Line([])
    if line.pieces:
        yield line


def _parts(line: str) -> re.Match[str]:
    parts = _PARTS.fullmatch(line)
    assert parts is not None, "every line matches"
    return parts


def _escape_key(key: str) -> str:
    return "".join(f"\\{sign}" if sign in " =:#!" else _escape(sign) for sign in key)


def _escape(value: str) -> str:
    """A value in ASCII on one line that does not start with a separator."""
    escaped = "".join(_ESCAPES.get(sign) or _ascii(sign) for sign in value)
    return f"\\{escaped}" if escaped[:1] in (" ", "=", ":") else escaped


def _ascii(sign: str) -> str:
    if " " <= sign <= "~":
        return sign
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    # Two escapes can be a surrogate pair; a lone surrogate becomes U+FFFD.
    units = _ESCAPE.sub(_unescaped, text).encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "replace")


def _unescaped(match: re.Match[str]) -> str:
    sign = match[1]
    if len(sign) == 5:
        return chr(int(sign[1:], 16))
    return _ESCAPED.get(sign, sign)
