"""Wire names: camel case, with a few exceptions in the protocol."""

from collections.abc import Callable


def camel(**otherwise: str) -> Callable[[str], str]:
    """A `rename` for msgspec structs: `broker_name` becomes brokerName; `others` are exceptions."""

    def spell(name: str) -> str:
        first, *rest = name.split("_")
        return otherwise.get(name) or first + "".join(map(str.capitalize, rest))

    return spell
