"""Habits of Java: hash codes, numbers as text, .properties."""

import pytest

from cometmq.protocol.java.values import (
    double_text,
    format_properties,
    hash_code,
    java_text,
    parse_properties,
)
from cometmq.protocol.records.message import body_crc
from protocol.golden import each


@each("ids", "hash_code/")
def test_hash_codes(entry):
    units = bytes.fromhex(entry["value"]["utf16Hex"])
    text = units.decode("utf-16-be", "surrogatepass")
    assert entry["value"]["text"] in (text, None)
    assert hash_code(text) == entry["value"]["hashCode"]


@each("ids", "crc32/")
def test_crcs(entry):
    assert body_crc(bytes.fromhex(entry["hex"])) == entry["value"]["crc32"]


@each("ids", "java_properties/")
def test_properties_files(entry):
    assert parse_properties(entry["text"]) == entry["value"]


@each("ids", "object_to_properties/")
def test_the_text_of_settings(entry):
    """Theirs in the order of a hash table, ours sorted; a backslash is not escaped by either."""
    written = format_properties(entry["value"])
    assert sorted(written.splitlines()) == sorted(entry["text"].splitlines())
    assert written == "".join(sorted(entry["text"].splitlines(keepends=True)))


def test_values_as_java_writes_them():
    written = [java_text(value) for value in (True, False, 1, "x", None)]
    assert written == ["true", "false", "1", "x", ""]


def test_a_line_break_adds_no_setting():
    values = {"a": "x\nb=forged", "c": "y\r\nd=forged"}
    assert parse_properties(format_properties(values)) == values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("\\\n\nk=v\n", {"k": "v"}),  # an empty line that is continued
        ("\\", {}),
        ("=", {"": ""}),
        ("k=a\\\n# no comment", {"k": "a# no comment"}),
        ("k\u00a0x=v", {"k\u00a0x": "v"}),  # only blanks, tabs and form feeds end a key
        ("k\u2028=v\u2028w", {"k\u2028": "v\u2028w"}),
        ("k=\\ud83d\\ude80", {"k": "\U0001f680"}),
        ("k=\\ud83d", {"k": "\ufffd"}),  # half a character is none
        ("k=\\u00zz", {"k": "u00zz"}),
    ],
)
def test_corners_of_properties_files(text, values):
    assert parse_properties(text) == values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (100.0, "100.0"), (0.001, "0.001"),
        (0.05, "0.05"), (57870.37037, "57870.37037"), (9999999.0, "9999999.0"),
        (1e7, "1.0E7"), (-1.5e7, "-1.5E7"), (123456789.0, "1.23456789E8"), (1e-4, "1.0E-4"),
        (1.25e-5, "1.25E-5"), (1e21, "1.0E21"), (5e-324, "5.0E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)  # fmt: skip
def test_numbers_as_text(value, text):
    assert double_text(value) == text
    assert float(text) == value
