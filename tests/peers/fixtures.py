"""pytest fixtures for tests against Apache's servers; such a test is skipped where they cannot run.

At the end of a test the servers are killed: an orderly stop takes them seconds, and their folders
are not looked at again.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from peers.apache import ApacheBroker, ApacheNamesrv
from peers.jars import PeerMissing, class_path


@pytest.fixture(scope="session")
def apache_class_path() -> str:
    """Class path of Apache RocketMQ 4.9.7; the test is skipped if it cannot be had."""
    try:
        return class_path()
    except PeerMissing as missing:
        pytest.skip(f"Apache RocketMQ cannot be run here: {missing}")


@pytest.fixture
def apache_namesrv(
    apache_class_path: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., ApacheNamesrv]]:
    """Factory of started name servers: apache_namesrv(conf=..., port=...)."""
    with ExitStack() as started:

        def start(folder: Path | None = None, **choices: object) -> ApacheNamesrv:
            server = ApacheNamesrv(folder or tmp_path_factory.mktemp("namesrv"), **choices)
            started.callback(server.kill)
            return server.start()

        yield start


@pytest.fixture
def apache_broker(
    apache_class_path: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., ApacheBroker]]:
    """Factory of started brokers: apache_broker(namesrv="127.0.0.1:9876", name=..., conf=...)."""
    with ExitStack() as started:

        def start(folder: Path | None = None, **choices: object) -> ApacheBroker:
            server = ApacheBroker(folder or tmp_path_factory.mktemp("broker"), **choices)
            started.callback(server.kill)
            return server.start()

        yield start
