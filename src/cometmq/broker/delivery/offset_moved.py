"""Events about pulls whose offset is outside of the queue, for programs that watch for them."""

import logging
from dataclasses import dataclass

from cometmq.broker.intake import Intake
from cometmq.broker.tables.identity import Identity
from cometmq.errors import Refused
from cometmq.protocol.bodies.consumer import OffsetMoved
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.headers.pull import PullHeader
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.names import OFFSET_MOVED_TOPIC
from cometmq.protocol.records.properties import DELAY, KEYS, TAGS, encode_properties
from cometmq.store.log.new_message import NewMessage

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffsetMovedEvents:
    """Stores an event in OFFSET_MOVED_EVENT, as Apache RocketMQ 4.9.7 does."""

    intake: Intake
    identity: Identity

    def store(self, ask: PullHeader, next_offset: int, now_ms: int) -> None:
        """Record that a group pulled from an offset that is gone, or not there yet."""
        event = OffsetMoved(
            consumer_group=ask.consumer_group,
            message_queue=MessageQueue(ask.topic, self.identity.name, ask.queue_id),
            offset_new=next_offset,
            offset_request=ask.queue_offset,
        )
        properties = {KEYS: ask.consumer_group, TAGS: ask.consumer_group, DELAY: "0"}
        message = NewMessage(
            topic=OFFSET_MOVED_TOPIC,
            queue_id=0,
            body=dumps(event),
            properties_text=encode_properties(properties),
            born_ms=now_ms,
            born_host=self.identity.host,
        )
        try:
            self.intake.put(message, now_ms)
        except Refused as error:  # the consumer must still get its next offset
            log.warning("cannot store an offset-moved event: %s", error)
