"""The pull consumer for code without asyncio."""

from collections.abc import Iterable

from cometmq.blocking.asker import AskerFace
from cometmq.blocking.face import waits
from cometmq.blocking.session import SharedSession, core_of
from cometmq.client.config import ClientConfig, PullConsumerConfig
from cometmq.client.consumer.lite import pull as awaited


class PullConsumer(AskerFace[awaited.PullConsumer]):
    """Read messages of a queue from an offset; see `cometmq.PullConsumer`."""

    def __init__(
        self,
        group: str | PullConsumerConfig,
        name_servers: str | Iterable[str] | None = None,
        *,
        client: ClientConfig | None = None,
        session: SharedSession | None = None,
    ) -> None:
        super().__init__(
            awaited.PullConsumer(group, name_servers, client=client, session=core_of(session))
        )

    fetch_queues = waits(awaited.PullConsumer.fetch_queues)
    pull = waits(awaited.PullConsumer.pull)
    pull_or_wait = waits(awaited.PullConsumer.pull_or_wait)
    send_back = waits(awaited.PullConsumer.send_back)
    committed = waits(awaited.PullConsumer.committed)
    commit = waits(awaited.PullConsumer.commit)
