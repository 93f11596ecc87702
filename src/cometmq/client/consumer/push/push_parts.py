"""The parts of a push member, and how they are connected."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cometmq.background import Background
from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.concurrent import Concurrent
from cometmq.client.consumer.push.consumption import ConsumptionParts
from cometmq.client.consumer.push.hooks import Hooks
from cometmq.client.consumer.push.listener import Listener
from cometmq.client.consumer.push.orderly import Orderly
from cometmq.client.consumer.push.owned_queues import OwnedQueues
from cometmq.client.consumer.push.push_reader import PushReader
from cometmq.client.consumer.push.queue_locks import QueueLocks
from cometmq.client.consumer.shared.back_off import SteadyBackOff
from cometmq.client.consumer.shared.pulls import Pulls
from cometmq.client.consumer.shared.queue_events import QueueEvents
from cometmq.client.consumer.shared.queue_puller import QueuePuller
from cometmq.client.consumer.shared.rebalance_trigger import RebalanceTrigger
from cometmq.client.consumer.shared.send_back import SendBack, reconsume_max
from cometmq.client.consumer.shared.start_offset import StartOffsets
from cometmq.client.consumer.shared.stats import ConsumerStats
from cometmq.client.consumer.shared.subscriptions import Subscriptions
from cometmq.client.durations import duration_ms
from cometmq.client.namespace import Namespace
from cometmq.client.session.session import Session
from cometmq.protocol.bodies.heartbeat import MessageModel


@dataclass(frozen=True, slots=True)
class PushParts:
    """What a push member uses."""

    config: PushConsumerConfig
    background: Background
    stats: ConsumerStats
    consumption: Concurrent | Orderly
    owned: OwnedQueues

    async def give_up_expired(self) -> None:
        """Send messages back whose listener call takes longer than `consume_timeout`."""
        if isinstance(self.consumption, Concurrent):
            self.consumption.give_up_expired(duration_ms(self.config.consume_timeout))


def assemble(
    session: Session,
    listener: Listener,
    hooks: Hooks,
    subscriptions: Subscriptions,
    starts: StartOffsets,
    trigger: RebalanceTrigger,
    events: QueueEvents,
    beat: Callable[[], Awaitable[None]],
) -> PushParts:
    """Make the parts."""
    config = starts.config
    assert isinstance(config, PushConsumerConfig), "the settings of a push consumer"
    namespace = Namespace(session.config.namespace)
    group = namespace.wire(config.group)
    clock, offsets = session.clock, starts.offsets
    background, stats = Background(clock), ConsumerStats(clock)
    is_shared, is_orderly = config.message_model is MessageModel.CLUSTERING, listener.is_orderly
    send_back = SendBack(
        session, group, reconsume_max(config, orderly=is_orderly), config.unit_mode
    )
    consumption = (Orderly if is_orderly else Concurrent)(
        ConsumptionParts(
            config,
            listener,
            send_back if is_shared else None,
            offsets,
            clock,
            background,
            stats,
            hooks,
        )
    )
    reader = PushReader(config, clock, offsets, subscriptions, stats, consumption, beat)
    puller = QueuePuller(
        Pulls(session, group, namespace.name),
        reader,
        SteadyBackOff(duration_ms(session.config.pull_delay_when_exception)),
        clock,
    )
    locks = QueueLocks(session, group) if is_orderly and is_shared else None
    owned = OwnedQueues(background, reader, puller, consumption, starts, locks, trigger, events)
    return PushParts(config, background, stats, consumption, owned)
