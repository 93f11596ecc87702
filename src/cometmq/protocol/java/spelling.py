"""Names on the wire: camel case of ours, but for the few that the protocol spells otherwise."""

from collections.abc import Callable


def camel(**otherwise: str) -> Callable[[str], str]:
    """A `rename` for msgspec structs: `broker_name` is brokerName, unless said otherwise."""

    def spell(name: str) -> str:
        first, *rest = name.split("_")
        return otherwise.get(name) or first + "".join(map(str.capitalize, rest))

    return spell
