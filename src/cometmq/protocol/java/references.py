"""`{"$ref":"$.a.b"}` in a body: the other side writes an object it has written before like this.

A path starts at the root, `$`. A dot goes into an object, brackets into a list; a backslash stands
before any other sign of a name. What a body becomes is bounded: references may repeat large parts.
"""

import re
from typing import Any

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.limits import RESOLVED_PARTS_MAX

REFERENCE = b'"$ref"'
_STEP = re.compile(r"\.(?P<name>(?:\\.|[^\\.\[\]])+)|\[(?P<rank>\d{1,9})\]", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def resolve(root: Any) -> object:
    """The same value with every reference replaced by what it refers to."""
    return _Resolver(root).value(root)


class _Resolver:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = RESOLVED_PARTS_MAX

    def value(self, plain: Any) -> object:
        self._left -= 1
        if self._left < 0:
            raise TooLarge(f"a body of more than {RESOLVED_PARTS_MAX} parts, by its references")
        if isinstance(plain, list):
            return [self.value(item) for item in plain]
        if not isinstance(plain, dict):
            return plain
        if plain.keys() == {"$ref"}:
            return self.value(self._find(plain["$ref"]))
        return {key: self.value(item) for key, item in plain.items()}

    def _find(self, path: object) -> Any:
        """What is at a path; one of itself is a RecursionError, as is deep nesting."""
        if not isinstance(path, str) or not path.startswith("$"):
            raise Malformed(f"not a path: {str(path)[:80]!r}")
        found, at = self._root, 1
        try:
            while at < len(path):
                step = _STEP.match(path, at)
                if step is None:
                    raise Malformed(f"not a path: {path[:80]!r}")
                at = step.end()
                name, rank = step["name"], step["rank"]
                found = found[_ESCAPED.sub(r"\1", name) if rank is None else int(rank)]
        except (KeyError, IndexError, TypeError) as error:
            raise Malformed(f"nothing at {path[:80]!r}") from error
        return found
