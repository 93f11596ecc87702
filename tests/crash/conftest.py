"""What the tests of this folder share."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A store says much of each crash, and there are many."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
