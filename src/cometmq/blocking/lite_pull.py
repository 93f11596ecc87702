"""The lite pull consumer for code that does not await."""

from collections.abc import Iterable, Iterator

from cometmq.blocking.face import Face, calls, waits
from cometmq.blocking.session import SharedSession, core_of
from cometmq.client.config import ClientConfig, LitePullConsumerConfig
from cometmq.client.consumer.lite import lite_pull as awaited
from cometmq.client.message import ReceivedMessage


class LitePullConsumer(Face[awaited.LitePullConsumer]):
    """`cometmq.LitePullConsumer`, waited for."""

    def __init__(
        self,
        group: str | LitePullConsumerConfig,
        name_servers: str | Iterable[str] | None = None,
        *,
        client: ClientConfig | None = None,
        session: SharedSession | None = None,
    ) -> None:
        super().__init__(
            awaited.LitePullConsumer(group, name_servers, client=client, session=core_of(session))
        )

    def __exit__(self, kind: object, error: BaseException | None, trace: object, /) -> None:
        self._loop.wait(self._core.__aexit__(None, error, None))  # what failed shall come again

    subscribe = calls(awaited.LitePullConsumer.subscribe)
    unsubscribe = calls(awaited.LitePullConsumer.unsubscribe)
    assign = calls(awaited.LitePullConsumer.assign)
    assignment = calls(awaited.LitePullConsumer.assignment)
    fetch_queues = waits(awaited.LitePullConsumer.fetch_queues)
    on_queues_changed = calls(awaited.LitePullConsumer.on_queues_changed)
    on_assigned = calls(awaited.LitePullConsumer.on_assigned)
    on_revoked = calls(awaited.LitePullConsumer.on_revoked)
    on_connection = calls(awaited.LitePullConsumer.on_connection)
    poll = waits(awaited.LitePullConsumer.poll)
    pause = calls(awaited.LitePullConsumer.pause)
    resume = calls(awaited.LitePullConsumer.resume)
    seek = waits(awaited.LitePullConsumer.seek)
    seek_to_begin = waits(awaited.LitePullConsumer.seek_to_begin)
    seek_to_end = waits(awaited.LitePullConsumer.seek_to_end)
    offset_for_timestamp = waits(awaited.LitePullConsumer.offset_for_timestamp)
    commit = waits(awaited.LitePullConsumer.commit)
    committed = waits(awaited.LitePullConsumer.committed)
    position = calls(awaited.LitePullConsumer.position)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """One by one, until the consumer is closed: who takes the next one is done with the last.

        Each takes a way to the loop and back. `batches` goes it once for many.
        """
        core = self._core

        async def following() -> ReceivedMessage | None:
            return await anext(core, None)

        while (message := self._loop.wait(following())) is not None:
            yield message

    def batches(self) -> Iterator[list[ReceivedMessage]]:
        """As `poll`, again and again until the consumer is closed."""
        stream = self._core.batches()

        async def following() -> list[ReceivedMessage] | None:
            return await anext(stream, None)

        while (messages := self._loop.wait(following())) is not None:
            yield messages
