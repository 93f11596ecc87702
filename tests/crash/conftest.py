"""What the tests of this folder share."""

import logging
from collections.abc import Iterator

import pytest

from cometmq.store.index import index


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A store says much of each crash, and there are many."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(autouse=True)
def few_keys_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or none of so few messages would have keys in a file that no checkpoint vouches for."""
    monkeypatch.setattr(index, "HELD_MAX", 2)
