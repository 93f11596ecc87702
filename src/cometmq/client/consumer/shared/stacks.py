"""Stack traces of all tasks and threads of this process, for operators."""

import asyncio
import inspect
import sys
import threading
import traceback


def task_stacks() -> str:
    """The stack of each task of the loop."""
    return "\n".join(
        f"{task.get_name()}\n{_stack(task.get_coro())}" for task in asyncio.all_tasks()
    )


def thread_stacks() -> str:
    """The stack of each thread."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "".join(
        f"{names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}\n"
        for ident, frame in sys._current_frames().items()  # noqa: SLF001 - there is no public API
    )


def _stack(waits: object) -> str:
    """The chain of coroutines, from the outermost to the one that waits."""
    lines = []
    while inspect.iscoroutine(waits) and waits.cr_frame is not None:
        lines.append(f"    {waits.__qualname__} at line {waits.cr_frame.f_lineno}")
        waits = waits.cr_await
    return "\n".join(lines)
