"""Resolves references like `{"$ref":"$.a.b"}`, which fastjson writes for repeated objects.

A path starts at the root, `$`. A dot selects a field, brackets an element of a list; a backslash
escapes special characters of a name. The number of values is limited, because references can
repeat large parts.
"""

import re
from typing import Any

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.limits import RESOLVED_PARTS_MAX

REFERENCE = b'"$ref"'
_STEP = re.compile(r"\.(?P<name>(?:\\.|[^\\.\[\]])+)|\[(?P<rank>\d{1,9})\]", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def resolve(root: Any) -> object:
    """The value with every reference replaced by its target."""
    return _Resolver(root).value(root)


class _Resolver:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = RESOLVED_PARTS_MAX

    def value(self, plain: Any) -> object:
        self._left -= 1
        if self._left < 0:
            raise TooLarge(
                f"a body with more than {RESOLVED_PARTS_MAX} values after resolving references"
            )
        if isinstance(plain, list):
            return [self.value(item) for item in plain]
        if not isinstance(plain, dict):
            return plain
        if plain.keys() == {"$ref"}:
            return self.value(self._find(plain["$ref"]))
        return {key: self.value(item) for key, item in plain.items()}

    def _find(self, path: object) -> Any:
        """The value at a path. Raises RecursionError for a cycle and for deep nesting."""
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
            raise Malformed(f"no value at {path[:80]!r}") from error
        return found
