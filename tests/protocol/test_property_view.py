"""PropertyView and edit_properties agree with the single-property functions."""

from hypothesis import given
from hypothesis import strategies as st

from cometmq.protocol.records.properties import number_in, put_property, take_property
from cometmq.protocol.records.property_view import PropertyView, edit_properties

NAMES = ["A", "B", "AB"]
TEXTS = st.text(alphabet=["A", "B", "7", "\1", "\2"], max_size=24)
CHANGES = st.dictionaries(st.sampled_from(NAMES), st.none() | st.sampled_from(["", "1", "x"]))


@given(text=TEXTS)
def test_a_view_has_the_values_that_a_scan_finds(text):
    view = PropertyView(text)
    for name in NAMES:
        assert view.get(name) == take_property(text, name)[1]
        assert view.number(name) == number_in(text, name)


@given(text=TEXTS, changes=CHANGES)
def test_an_edit_has_the_result_of_single_changes(text, changes):
    expected = text
    for name in changes:
        expected = take_property(expected, name)[0]
    for name, value in changes.items():
        if value is not None:
            expected = put_property(expected, name, value)
    assert edit_properties(text, changes) == expected
