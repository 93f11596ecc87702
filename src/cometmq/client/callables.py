"""Checks functions when users register them, instead of at the first call."""

import inspect

from cometmq.errors import BadSetting


def check_callable(what: str, function: object, *arguments: str) -> None:
    """Raise BadSetting unless the function can be called with these arguments.

    Classes and generator functions are rejected: a call does not run a generator's body. A function
    without a signature, such as some functions written in C, is accepted.
    """
    name = getattr(function, "__qualname__", None) or repr(function)
    takes = f"{what} is called with {' and '.join(arguments)}"
    if not callable(function):
        raise BadSetting(f"{function!r} is not a function: {takes}")
    if isinstance(function, type):
        raise BadSetting(f"{name} is a class: {takes}; give a function or an instance")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadSetting(
            f"{name} is a generator function, which a call does not run: {takes}; remove yield"
        )
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise BadSetting(f"{name}{signature} does not fit: {takes} ({error})") from error
