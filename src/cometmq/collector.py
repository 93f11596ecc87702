"""Python's collector of garbage, which rests while a process starts.

What imports make is no garbage: to look for some takes a tenth of a short command's time. And what
a server has when it begins to serve, it keeps: no collection looks at that again.
"""

import gc


def rest() -> None:
    """From the start of a process until `wake`."""
    gc.disable()


def wake() -> None:
    """All that there is, is kept; what comes now may become garbage. Nothing if it did not rest."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
