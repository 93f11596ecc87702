"""Random .properties files: an edit changes the given values and nothing else."""

from hypothesis import example, given
from hypothesis import strategies as st

from cometmq.protocol.java.java_properties import edit_properties, parse_properties

KEYS = ("a", "traceOn", "tls.server.mode", "k k", "=:#!", "", "é")
BREAKS = st.sampled_from(["\n", "\r\n", "\r"])
# Pieces of lines: separators, escapes, continuations and comments.
PIECES = st.sampled_from(
    [*KEYS, "tr\\u0061ceOn", "k\\ k", "\\=\\:\\#\\!", "=", ":", " ", "\t", "\f", "\\", "\\\\", "#",
     "!", "\\\n", "\\\r\n  ", "\\\r", "\n", "\r\n", "\r", "value", "\\n", "\\u4e2d", "中",
     "\udcff", "\\u12"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=60)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", " ", "=x", ":", "\\", "#", "a\\", "\n", "中\U0001f600", "\x00"]
)
CHANGES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)


@given(TEXTS, CHANGES)
@example("a=1\\", {"traceOn": "x"})
@example("a=1\\\n", {"traceOn": "x"})
@example("\na\\\r", {"traceOn": "x"})
@example("a\\\n\n", {"a": "x"})
@example("a=\\\r1\n!c", {"a": ""})
@example("a=\\", {"a": "new"})
@example("\\\n#c\\\na=1", {"a": "2"})
@example("a=1\na : 2 # no comment\n", {"a": "3"})
@example("# comment\\\na=1", {"a": "2"})
def test_edit_changes_only_the_given_values(text, changes):
    edited = edit_properties(text, changes)
    before = parse_properties(text)
    assert parse_properties(edited) == before | changes
    if all(before.get(key) == value for key, value in changes.items()):
        assert edited == text


# Complete lines: other keys, comments and blank lines.
OTHER = st.sampled_from(
    ["# traceOn=true", "  ! traceOn\\", "", "  \t", "a=1", "a : 2 # x", "  a\\ b  c\\\\", "abort",
     "long = 1 \\\n   2 \\\n  # 3", "caf\u00e9=\udcff", "traceOn2=true", "a=\\u0074raceOn=1"]
)  # fmt: skip
LINES = st.lists(st.tuples(OTHER, BREAKS).map("".join), max_size=6).map("".join)
SPELLED = st.sampled_from(["traceOn", "  traceOn", "tr\\u0061ceOn", "tr\\\n  aceOn"])
SEPARATORS = st.sampled_from(["=", ":", " ", " = ", "\t:\f", ""])
OLD = st.sampled_from(["", "true", "\\\n   true", "a \\\n  b\\\r\n c", "\\u4e2d", "x\\\\", "1\\\n"])


@given(LINES, SPELLED, SEPARATORS, OLD, st.sampled_from(["", "\n", "\r\n"]), LINES, VALUES)
def test_edit_preserves_all_other_bytes(above, key, separator, old, ending, below, value):
    if not separator:
        old = ""
    if (below or old.endswith("\n")) and not ending:  # an edit preserves the last line break
        ending = "\n"
    before, after = f"{above}{key}{separator}", f"{ending}{below}"
    text = before + old + after
    edited = edit_properties(text, {"traceOn": value})
    if parse_properties(text)["traceOn"] == value:
        assert edited == text
        return
    assert edited.startswith(before)
    assert edited.endswith(after)
    new = edited[len(before) : len(edited) - len(after)]
    assert new.isascii()
    assert not set(new) & {"\r", "\n"}


@given(st.lists(st.tuples(st.sampled_from(KEYS[:3]), VALUES), min_size=1), BREAKS, VALUES)
def test_edit_changes_the_last_duplicate_of_a_key(pairs, ending, value):
    text = "".join(edit_properties("", {key: each}) for key, each in pairs).replace("\n", ending)
    key = pairs[-1][0]
    edited = edit_properties(text, {key: value})
    lines, changed = text.split(ending), edited.split(ending)
    assert len(lines) == len(changed)
    assert [n for n, pair in enumerate(zip(lines, changed, strict=True)) if len(set(pair)) > 1] in (
        [], [len(pairs) - 1],
    )  # fmt: skip
