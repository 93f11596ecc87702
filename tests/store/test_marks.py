"""A tag's code and the keys of a message, found in its properties text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.protocol.java.values import hash_code
from cometmq.protocol.records.properties import decode_properties, encode_properties
from cometmq.store.index import tag_and_keys as marks
from cometmq.store.index.tag_and_keys import marks_of
from searches import examples

names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "XTAGS", "TAGSX", "a", "KEY", "S"])
values = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), max_size=6)


@settings(max_examples=examples(500), deadline=None)
@given(st.dictionaries(names, values, max_size=8))
def test_marks_are_those_of_the_parsed_properties(properties):
    text = encode_properties(properties)
    parsed = decode_properties(text)
    for form in (text, text + "\x02"):  # older clients end the text with a separator
        code, keys = marks_of(form)
        assert code == hash_code(parsed.get("TAGS", ""))
        unique = parsed.get("UNIQ_KEY")
        words = [word for word in parsed.get("KEYS", "").split(" ") if word]
        assert keys == ([unique] if unique else []) + words


@pytest.mark.parametrize("text", ["", "a\x01b", "XTAGS\x01b", "TAGSX\x01b", "a\x01TAGS", "TAGS"])
def test_without_a_tag_the_code_is_zero(text):
    assert marks_of(text) == (0, [])


def test_every_word_of_keys_is_a_key():
    assert marks_of("UNIQ_KEY\x01U\x02KEYS\x01 a  b a ").keys == ["U", "a", "b", "a"]


@pytest.mark.parametrize("name", ["TAGS", "KEYS", "UNIQ_KEY"])
def test_of_several_of_one_name_the_last_counts_as_in_the_parsed_properties(name):
    text = f"{name}\x01one\x02a\x01b\x02{name}\x01two"
    assert decode_properties(text)[name] == "two"
    assert marks_of(text) == ((hash_code("two"), []) if name == "TAGS" else (0, ["two"]))


def test_codes_stay_right_when_the_kept_ones_are_forgotten(monkeypatch):
    monkeypatch.setattr(marks, "_CODES_KEPT_MAX", 10)
    for i in range(50):
        assert marks_of(f"TAGS\x01tag{i}").tag_code == hash_code(f"tag{i}")
    assert len(marks._tag_codes) <= 10
    assert marks_of("").tag_code == 0
