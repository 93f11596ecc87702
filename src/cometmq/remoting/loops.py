"""The loop for those who run one of their own: uvloop where it is installed."""

import asyncio
from collections.abc import Callable
from types import ModuleType


def quick_loop() -> asyncio.AbstractEventLoop:
    """A new one; a way from another thread and back takes two thirds of the standard loop's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    module: ModuleType = uvloop
    factory: Callable[[], asyncio.AbstractEventLoop] = module.new_event_loop
    return factory()
