"""Fixtures of the crash tests."""

import logging
from collections.abc import Iterator

import pytest

from cometmq.store.index import index


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Disable logs: a store logs each of many recoveries."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(autouse=True)
def few_keys_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write keys early, so that few messages have keys in a file without checkpoint."""
    monkeypatch.setattr(index, "HELD_MAX", 2)
