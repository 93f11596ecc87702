"""For tests: a cluster inside the test's process, and faulty or hurried versions of the world."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cometmq.testing.embedded import EmbeddedCluster as EmbeddedCluster

__all__ = ["EmbeddedCluster"]


if not TYPE_CHECKING:  # or a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name == "EmbeddedCluster":  # pytest loads this package at every start: keep it light
            from cometmq.testing.embedded import EmbeddedCluster

            return EmbeddedCluster
        raise AttributeError(f"cometmq.testing has no {name!r}")
