"""What every test may use."""

import gc
import resource
import signal

import pytest

import searches  # noqa: F401 - before any property test

pytest_plugins = ["peers.fixtures"]

# Tests with a thousand sockets, in a shell whose soft limit is the usual 1024.
_, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))

# What a shell starts in its background ignores it: those who wait for an interrupt would for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection() -> None:
    """No test that is found is garbage: to look for some takes a fifth of the search."""
    gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Beside Apache's processes a test may fail by theirs: it has a second try, and is named."""
    for item in items:
        if _is_beside_apache(item):
            item.add_marker(pytest.mark.flaky(reruns=1))


def _is_beside_apache(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return item.get_closest_marker("apache") is not None or (
        call is not None and any("apache" in str(value) for value in call.params.values())
    )


def pytest_collection_finish() -> None:
    """Tests that ask for a collection do not pay for thousands of others."""
    gc.freeze()
    gc.enable()
