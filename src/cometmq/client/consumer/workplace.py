"""What both ways of consumption use, side by side and in order."""

from collections.abc import Callable
from dataclasses import dataclass

from cometmq.background import Background
from cometmq.client.consumer.hooks import Hooks
from cometmq.client.consumer.listener import Listener
from cometmq.client.consumer.offsets import Offsets
from cometmq.client.consumer.send_back import SendBack
from cometmq.client.consumer.stats import ConsumeStats
from cometmq.client.consumer.workers import Finished, Workers
from cometmq.seams import Clock


@dataclass(frozen=True, slots=True)
class Workplace:
    """Of one consumer."""

    listener: Listener
    make_workers: Callable[[Finished], Workers]
    send_back: SendBack | None  # None: a broadcasting consumer passes over what it fails
    offsets: Offsets
    clock: Clock
    background: Background
    stats: ConsumeStats
    hooks: Hooks
