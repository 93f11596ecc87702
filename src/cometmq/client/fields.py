"""Validated fields of configurations: one class per kind of value.

A setting is a descriptor of a dataclass. It accepts several forms of a value, rejects others with
BadSetting (name, value, what is allowed), and is read in one form. Type checkers see both types.
A test checks that every field of a configuration is a setting. `setting.check(name, value)`
validates an argument of a function in the same way.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar, cast

from cometmq.client.durations import DURATION_FORMS, Duration, duration_ms
from cometmq.errors import BadSetting

NAME_SERVERS_VARIABLE = "NAMESRV_ADDR"
_INT_MAX = 2**31 - 1
_DURATION_MS_MAX = _INT_MAX  # 24 days

Given = TypeVar("Given")
Read = TypeVar("Read")
E = TypeVar("E", bound=Enum)
T = TypeVar("T")


class CheckedConfig:
    """Base of the configurations: an unknown or a former name of a setting raises BadSetting."""

    _renamed: ClassVar[Mapping[str, str]] = {}  # former names that differ in more than the unit

    if not TYPE_CHECKING:  # a type checker knows the names from the fields

        def __new__(cls, *_: object, **given: object) -> Self:
            for name in given.keys() - cls.__dataclass_fields__.keys():
                raise BadSetting(cls._unknown(name))
            return super().__new__(cls)

        def __getattr__(self, name: str) -> object:
            raise AttributeError(self._unknown(name))

    @classmethod
    def _unknown(cls, name: str) -> str:
        names = [each.name for each in fields(cast(Any, cls))]
        new_name = cls._renamed.get(name, name.removesuffix("_ms"))
        if name.endswith("_ms") and new_name in names:
            return f"{name} is now called {new_name}: {DURATION_FORMS}"
        from difflib import get_close_matches  # slow to import, and only needed for a typo

        near = get_close_matches(name, names, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{cls.__name__} has no setting {name}{hint}"


class Setting(Generic[Given, Read]):
    """Base of all kinds of settings."""

    allowed: str  # completes "it must be ..."

    def __init__(self, default: Given) -> None:
        self._default = default
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, settings: object | None, owner: type) -> Read:
        value = self._default if settings is None else settings.__dict__[self._name]
        return cast(Read, value)

    def __set__(self, settings: object, value: Given) -> None:
        given: object = value
        if given is self:  # from dataclasses.field(default=...)
            given = self._default
        settings.__dict__[self._name] = self.check(self._name, given)

    def check(self, name: str, value: object) -> Read:
        """Return the value in the form that is read; raise BadSetting if it is not allowed."""
        raise NotImplementedError

    def refuse(self, name: str, value: object) -> NoReturn:
        """Raise BadSetting with the name, the value and what is allowed."""
        raise BadSetting(f"{name} is {value!r}: it must be {self.allowed}")


class Whole(Setting[int, int]):
    """A whole number within bounds."""

    def __init__(self, default: int, least: int = 0, most: int = _INT_MAX) -> None:
        super().__init__(default)
        self._least, self._most = least, most
        self.allowed = f"a whole number from {least} to {most}"

    def check(self, name: str, value: object) -> int:
        """Reject bools, which Python counts as integers."""
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse(name, value)
        if not self._least <= value <= self._most:
            self.refuse(name, value)
        return value


class Seconds(Setting[Duration, float]):
    """A duration: given in seconds or as a timedelta, read in seconds.

    `duration_ms` converts the value that is read to whole milliseconds. Bounds are inclusive.
    """

    def __init__(
        self, default: float, least: float = 0, most: float = _DURATION_MS_MAX / 1000
    ) -> None:
        super().__init__(default)
        self._least_ms, self._most_ms = duration_ms(least), duration_ms(most)
        is_bounded = self._most_ms < _DURATION_MS_MAX
        bounds = f"{least:g} to {most:g} s" if is_bounded else f"at least {least:g} s"
        self.allowed = f"{DURATION_FORMS}, {bounds}"
        # Java's setters take milliseconds (cometmq.compat).
        self.in_ms = Whole(duration_ms(default), self._least_ms, self._most_ms)
        self.in_ms.allowed = f"milliseconds: {self.in_ms.allowed}"

    def check(self, name: str, value: object) -> float:
        """Round the value to whole milliseconds."""
        try:
            found_ms = duration_ms(cast(Duration, value), name)
        except BadSetting:
            self.refuse(name, value)
        if not self._least_ms <= found_ms <= self._most_ms:
            self.refuse(name, value)
        return found_ms / 1000


class Flag(Setting[bool, bool]):
    """True or False. Strings and numbers are rejected: "no" would be true."""

    allowed = "True or False"

    def check(self, name: str, value: object) -> bool:
        return value if isinstance(value, bool) else self.refuse(name, value)


class Text(Setting[str, str]):
    """A string, which may have to be non-blank."""

    def __init__(
        self,
        default: str = "",
        *,
        blank: bool = True,
        secret: bool = False,
        otherwise: Callable[[], str] | None = None,  # computes the default
    ) -> None:
        super().__init__(cast(str, None) if otherwise is not None else default)
        self._may_be_blank, self._is_secret, self._otherwise = blank, secret, otherwise
        self.allowed = "a string" if blank else "a string that is not blank"

    def check(self, name: str, value: object) -> str:
        """Never show a secret in an error."""
        if value is None and self._otherwise is not None:
            value = self._otherwise()
        if not isinstance(value, str) or not (self._may_be_blank or value.strip()):
            if self._is_secret:
                raise BadSetting(f"{name} is a {type(value).__name__}: it must be {self.allowed}")
            self.refuse(name, value)
        return value


class Choice(Setting[E, E]):
    """A member of an enum, its name, or its value on the wire.

    Type checkers accept only the member, because they could not find a misspelled name.
    """

    def __init__(self, default: E, *members: E) -> None:
        super().__init__(default)
        kind = type(default)
        self._members: tuple[E, ...] = members or tuple(kind)
        names = ", ".join(each.name for each in self._members)
        self.allowed = f"a {kind.__name__} or the name of one: {names}"

    def check(self, name: str, value: object) -> E:
        for member in self._members:
            if value is member or (isinstance(value, str) and value in (member.name, member.value)):
                return member
        return self.refuse(name, value)


class Optional(Setting[T | None, T | None]):
    """An instance of a class, or None."""

    def __init__(self, kind: type[T]) -> None:
        super().__init__(None)
        self._kind = kind
        self.allowed = f"a {kind.__name__} or None"

    def check(self, name: str, value: object) -> T | None:
        if value is None or isinstance(value, self._kind):
            return value
        return self.refuse(name, value)


class Folder(Setting[Path | None, Path | None]):
    """A folder as a Path or a string, or None."""

    allowed = "a path that is not empty or None"

    def __init__(self) -> None:
        super().__init__(None)

    def check(self, name: str, value: object) -> Path | None:
        if value is None:
            return None
        if not isinstance(value, str | Path | os.PathLike) or not os.fspath(value):
            self.refuse(name, value)
        return Path(value)


class Several(Setting[Iterable[T], tuple[T, ...]]):
    """Several instances of a class. A string is rejected: it would be one of characters."""

    def __init__(self, kind: type[T]) -> None:
        super().__init__(())
        self._kind = kind
        self.allowed = f"a list, tuple or set of {kind.__name__}"

    def check(self, name: str, value: object) -> tuple[T, ...]:
        if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
            self.refuse(name, value)
        found = tuple(value)
        if not all(isinstance(each, self._kind) for each in found):
            self.refuse(name, value)
        return found


class Codes(Setting[Iterable[int], frozenset[int]]):
    """A set of response codes."""

    def __init__(self, default: Iterable[int]) -> None:
        super().__init__(frozenset(default))
        self._several = Several(int)
        self.allowed = self._several.allowed

    def check(self, name: str, value: object) -> frozenset[int]:
        return frozenset(self._several.check(name, value))


class Addresses(Setting[str | Iterable[str] | None, tuple[str, ...]]):
    """`host:port` addresses, given as a list or as a string with semicolons.

    Without a default, None means the addresses in the environment variable NAMESRV_ADDR.
    """

    allowed = "host:port addresses, as a list or as a string with semicolons"

    def __init__(self, default: tuple[str, ...] | None = None) -> None:
        super().__init__(default)

    def check(self, name: str, value: object) -> tuple[str, ...]:
        if value is None and self._default is None:
            value = os.environ.get(NAME_SERVERS_VARIABLE, "")
        given = value.split(";") if isinstance(value, str) else value
        if not isinstance(given, Iterable):
            self.refuse(name, value)
        found = tuple(given)
        if not all(isinstance(each, str) for each in found):
            self.refuse(name, value)
        return parse_addresses(found)


class AddressMap(Setting[Mapping[str, str], Mapping[str, str]]):
    """Maps `host:port` addresses to the addresses to connect to."""

    allowed = "a mapping of host:port addresses to others"

    def __init__(self) -> None:
        # None means an empty map: dataclasses reject an unhashable default.
        super().__init__(cast(Mapping[str, str], None))

    def check(self, name: str, value: object) -> Mapping[str, str]:
        """Return a read-only copy."""
        value = {} if value is None else value
        if not isinstance(value, Mapping):
            self.refuse(name, value)
        for address in (*value, *value.values()):
            if not isinstance(address, str):
                self.refuse(name, value)
            check_address(address)
        return MappingProxyType(dict(value))


def parse_addresses(given: str | Iterable[str]) -> tuple[str, ...]:
    """Parse `host:port` addresses from a list or from a string with semicolons."""
    parts = given.split(";") if isinstance(given, str) else given
    found = tuple(part.strip() for part in parts if part.strip())
    for address in found:
        check_address(address)
    return found


def check_address(address: str) -> None:
    """Raise BadSetting unless the text is `host:port`."""
    host, _, port = address.rpartition(":")
    if "," in address:
        raise BadSetting(f"{address!r} has a comma: separate addresses with ';', or give a list")
    if "://" in address:
        without = address.partition("://")[2].rstrip("/")
        raise BadSetting(f"{address!r} has a scheme: write host:port without it, {without!r}")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise BadSetting(f"{address!r} is not a valid address: write host:port, 127.0.0.1:9876")
