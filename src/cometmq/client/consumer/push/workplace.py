"""What both ways of consumption use, side by side and in order."""

from collections.abc import Callable
from dataclasses import dataclass

from cometmq.background import Background
from cometmq.client.consumer.push.hooks import Hooks
from cometmq.client.consumer.push.listener import Listener
from cometmq.client.consumer.push.send_back import SendBack
from cometmq.client.consumer.push.workers import Finished, Workers
from cometmq.client.consumer.shared.offsets import Offsets
from cometmq.client.consumer.shared.stats import ConsumerStats
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
    stats: ConsumerStats
    hooks: Hooks
