"""Checks of functions that users register, at registration instead of at the first call."""

import inspect

from cometmq.errors import BadSetting


def check_callable(what: str, function: object, *arguments: str) -> None:
    """BadSetting, unless the function can be called with these arguments.

    Refused too: a class, and a generator function: a call does not run its body. A function whose
    signature Python does not know, as some written in C, is accepted.
    """
    name = getattr(function, "__qualname__", None) or repr(function)
    takes = f"{what} is called with {' and '.join(arguments)}"
    if not callable(function):
        raise BadSetting(f"{function!r} is no function: {takes}")
    if isinstance(function, type):
        raise BadSetting(f"{name} is a class: {takes}; give a function or an object of the class")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadSetting(f"{name} is a generator, which a call does not run: {takes}; use no yield")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise BadSetting(f"{name}{signature} does not fit: {takes} ({error})") from error
