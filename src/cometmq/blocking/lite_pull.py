"""The lite pull consumer for code without asyncio."""

from collections.abc import Iterable, Iterator

from cometmq.blocking.face import Face, calls, waits
from cometmq.blocking.session import SharedSession, core_of
from cometmq.client.config import ClientConfig, LitePullConsumerConfig
from cometmq.client.consumer.lite import lite_pull as awaited
from cometmq.client.message import ReceivedMessage


class LitePullConsumer(Face[awaited.LitePullConsumer]):
    """Read messages by polling or iterating; see `cometmq.LitePullConsumer`.

    with LitePullConsumer("archive", "127.0.0.1:9876") as consumer:
        consumer.subscribe("orders")
        for message in consumer:
            print(message.message_id, message.body)
    """

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
        self._loop.wait(
            self._core.__aexit__(None, error, None)
        )  # after an exception, messages are redelivered

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
        """Iterate over messages until the consumer is closed.

        A message counts as done when the next one is requested. Each message costs a switch of
        threads; `batches` needs one switch for many messages.
        """
        core = self._core

        async def following() -> ReceivedMessage | None:
            return await anext(core, None)

        while (message := self._loop.wait(following())) is not None:
            yield message

    def batches(self) -> Iterator[list[ReceivedMessage]]:
        """Iterate over the lists that `poll` would return, until the consumer is closed."""
        stream = self._core.batches()

        async def following() -> list[ReceivedMessage] | None:
            return await anext(stream, None)

        while (messages := self._loop.wait(following())) is not None:
            yield messages
