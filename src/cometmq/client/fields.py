"""Fields of settings: they check what they are given, and are read in one form.

Descriptors, so that a type checker knows that more is taken than is read.
"""

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import overload

from cometmq.errors import BadSetting

NAME_SERVERS_VARIABLE = "NAMESRV_ADDR"
_INT_MAX = 2**31 - 1
_MILLISECOND = timedelta(milliseconds=1)


class Whole:
    """A field that holds a whole number within bounds."""

    def __init__(self, default: int, least: int = 0, most: int = _INT_MAX) -> None:
        self._default, self._least, self._most = default, least, most
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, settings: object | None, owner: type) -> int:
        if settings is None:
            return self._default
        value: int = settings.__dict__[self._name]
        return value

    def __set__(self, settings: object, value: int) -> None:
        settings.__dict__[self._name] = self._checked(value)

    def _checked(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadSetting(f"{self._name} is {value!r}: it must be a whole number")
        if not self._least <= value <= self._most:
            raise BadSetting(
                f"{self._name} is {value}: it must be from {self._least} to {self._most}"
            )
        return value


class Milliseconds(Whole):
    """A field that holds a time: given in ms or as a timedelta, read in ms."""

    def __set__(self, settings: object, value: int | timedelta) -> None:
        if isinstance(value, timedelta):
            value = value // _MILLISECOND
        settings.__dict__[self._name] = self._checked(value)


class Addresses:
    """A field that holds `host:port`s: given as a list, or as a text with semicolons."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, settings: None, owner: type) -> None: ...
    @overload
    def __get__(self, settings: object, owner: type) -> tuple[str, ...]: ...
    def __get__(self, settings: object | None, owner: type) -> tuple[str, ...] | None:
        if settings is None:
            return None
        value: tuple[str, ...] = settings.__dict__[self._name]
        return value

    def __set__(self, settings: object, value: str | Iterable[str] | None) -> None:
        if value is None:
            value = os.environ.get(NAME_SERVERS_VARIABLE, "")
        settings.__dict__[self._name] = parse_addresses(value)


def parse_addresses(given: str | Iterable[str]) -> tuple[str, ...]:
    """`host:port` addresses, of a list or of a text that separates them by semicolons."""
    parts = given.split(";") if isinstance(given, str) else given
    found = tuple(part.strip() for part in parts if part.strip())
    for address in found:
        check_address(address)
    return found


def check_address(address: str) -> None:
    """BadSetting, if it is none."""
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise BadSetting(f"{address!r} is no address such as 127.0.0.1:9876")
