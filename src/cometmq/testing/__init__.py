"""For tests: a cluster inside the test's process, and faulty or hurried versions of the world."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cometmq.testing.embedded import EmbeddedCluster as EmbeddedCluster
    from cometmq.testing.faulty_disk import FaultyDisk as FaultyDisk

__all__ = ["EmbeddedCluster", "FaultyDisk"]


if not TYPE_CHECKING:  # or a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name == "EmbeddedCluster":  # pytest loads this package at every start: keep it light
            from cometmq.testing.embedded import EmbeddedCluster

            return EmbeddedCluster
        if name == "FaultyDisk":
            from cometmq.testing.faulty_disk import FaultyDisk

            return FaultyDisk
        raise AttributeError(f"cometmq.testing has no {name!r}")
