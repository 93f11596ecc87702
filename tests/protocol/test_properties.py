"""The text form of a message's properties."""

import pytest

from cometmq.errors import Malformed
from cometmq.protocol.records.properties import decode_properties, encode_properties
from protocol.golden import each


@each("ids", "properties_to_text/")
def test_to_text(entry):
    """No separator after the last one; a null is left out, an empty value is not."""
    assert decode_properties(entry["text"]) == entry["value"]["readBack"]
    if entry["name"].endswith("/separators_inside"):
        with pytest.raises(Malformed):  # there it is written, and read as something else
            encode_properties(entry["value"]["properties"])
    else:
        assert encode_properties(entry["value"]["properties"]) == entry["text"]


@each("ids", "text_to_properties/")
def test_to_properties(entry):
    assert decode_properties(entry["text"]) == entry["value"]


@pytest.mark.parametrize("text", ["\x01", "\x02", "a\x01b", "a\x02"])
def test_a_separator_is_refused(text):
    with pytest.raises(Malformed):
        encode_properties({"name": text})
    with pytest.raises(Malformed):
        encode_properties({text: "value"})
