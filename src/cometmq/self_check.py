"""A self-check of a cluster: sends one message and reads it back."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cometmq.client.config import ClientConfig
from cometmq.client.consumer.lite.pull import PullConsumer
from cometmq.client.message import Message
from cometmq.client.send.producer import Producer
from cometmq.client.session.session import Session
from cometmq.errors import PeerError, Refused, WorldError
from cometmq.log_event import LogEvent
from cometmq.standalone import Standalone

log = logging.getLogger(__name__)

TOPIC = "cometmq-self-check"
GROUP = "cometmq-self-check"
_QUEUES = 4


async def self_check(name_server: str) -> None:
    """Send a message and read it back. Raises WorldError if another message is read."""
    async with Session.own(ClientConfig(name_servers=name_server)) as session:
        async with Producer(GROUP, session=session) as producer:
            sent = await producer.send(Message(TOPIC, b"are you there?"))
        async with PullConsumer(GROUP, session=session) as consumer:
            found = await consumer.pull(sent.queue, sent.queue_offset, 1)
    if [message.message_id for message in found.messages] != [sent.message_id]:
        raise WorldError(f"sent {sent}, but read {found}")


@asynccontextmanager
async def checked(cluster: Standalone) -> AsyncIterator[Standalone]:
    """Run the cluster, and check it before the `with` block. Raises WorldError if a check fails."""
    async with cluster:
        await cluster.create_topic(TOPIC, _QUEUES)  # autoCreateTopicEnable may be false
        try:
            await self_check(cluster.name_server)
        except Refused as error:
            log.warning(LogEvent("the broker's settings do not allow the self-check", reason=error))
        except (PeerError, WorldError) as error:
            raise WorldError(f"the self-check failed: {error}") from error
        yield cluster
