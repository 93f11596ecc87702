"""A properties text that is read or changed in several places: one pass for all of them."""

from collections.abc import Mapping

from cometmq.protocol.records.properties import (
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    whole_number,
)


class PropertyView:
    """The properties of a text, parsed when the first one is read.

    If a name occurs several times, the last value counts. Unlike `decode_properties`, it contains
    properties with an empty value.
    """

    __slots__ = ("_values", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._values: dict[str, str] | None = None

    def get(self, name: str) -> str | None:
        """The value of a property; None if it is missing."""
        values = self._values
        if values is None:
            values = self._values = {}
            for part in self.text.split(PROPERTY_SEPARATOR):
                key, mark, value = part.partition(NAME_VALUE_SEPARATOR)
                if mark:
                    values[key] = value
        return values.get(name)

    def number(self, name: str) -> int | None:
        """The value as a non-negative integer of at most 18 digits; None if it is not one."""
        return whole_number(self.get(name))


def edit_properties(text: str, changes: Mapping[str, str | None]) -> str:
    """Remove the named properties, then append those that have a new value, in this order.

    The result is the same as that of `put_property` and `take_property` for each name.
    """
    parts = []
    for part in text.split(PROPERTY_SEPARATOR):
        name, mark, _ = part.partition(NAME_VALUE_SEPARATOR)
        if not mark or name not in changes:
            parts.append(part)
    added = [
        f"{name}{NAME_VALUE_SEPARATOR}{value}"
        for name, value in changes.items()
        if value is not None
    ]
    if parts and not parts[-1]:  # the text is empty or ends with a separator
        if not added:
            return PROPERTY_SEPARATOR.join(parts)
        parts.pop()
    return PROPERTY_SEPARATOR.join([*parts, *added])
