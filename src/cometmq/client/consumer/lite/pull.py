"""The pull consumer: it reads the queue and the offset that the caller names.

It does not join its group and takes part in no rebalance. The group determines whose offsets it
reads and commits, and to whom messages that it sends back are redelivered.
"""

from collections.abc import Iterable
from typing import Self

from cometmq.client.config import ClientConfig, PullConsumerConfig, config_of
from cometmq.client.consumer.shared.offsets import offsets_for
from cometmq.client.consumer.shared.outcomes import check_delay_level
from cometmq.client.consumer.shared.pulls import Pull, Pulls
from cometmq.client.consumer.shared.send_back import RETRIES_UNLESS_SET, SendBack
from cometmq.client.consumer.shared.subscriptions import Subscriptions
from cometmq.client.durations import duration_ms
from cometmq.client.message import PullResult, ReceivedMessage
from cometmq.client.namespace import Namespace
from cometmq.client.session.asker import Asker
from cometmq.client.session.session import Session
from cometmq.client.session.session_handle import lease
from cometmq.errors import BadSetting, Closed, Unreachable
from cometmq.protocol.bodies.heartbeat import MessageModel, Subscription
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.filter.tags import ALL

_COUNT_MAX = 1024  # as for other consumers; brokers return fewer


class PullConsumer(Asker):
    """Read messages of a queue from an offset.

        async with PullConsumer("inspection", "127.0.0.1:9876") as consumer:
            for queue in await consumer.fetch_queues("orders"):
                result = await consumer.pull(queue, offset=0)
                print(result.status, len(result.messages), result.next_offset)

    It does not join its group. The group determines whose offsets `committed` and `commit` use.
    Queues are named without the namespace of the client.

    Args:
        group: The consumer group, or a `PullConsumerConfig`.
        name_servers: One or more `host:port` addresses; by default those of `NAMESRV_ADDR`.
        client: Settings of the client, instead of `name_servers`.
        session: A session to share with other clients, instead of `name_servers`.

    Raises:
        BadSetting: A setting is invalid.
    """

    def __init__(
        self,
        group: str | PullConsumerConfig,
        name_servers: str | Iterable[str] | None = None,
        *,
        client: ClientConfig | None = None,
        session: Session | None = None,
    ) -> None:
        self.config = config_of(PullConsumerConfig, group)
        keep_name = self.config.message_model is MessageModel.BROADCASTING
        self._lease = lease(name_servers, client, session, keep_name=keep_name)
        super().__init__(self._lease.session)
        self._namespace = Namespace(self._session.config.namespace)
        group_name = self._namespace.wire(self.config.group)
        self._offsets = offsets_for(
            self._session, group_name, self.config.message_model, self.config.offset_folder
        )
        self._pulls = Pulls(self._session, group_name, self._namespace.name)
        self._send_back = SendBack(
            self._session, group_name, RETRIES_UNLESS_SET, self.config.unit_mode
        )
        self._is_started = False
        self._is_closed = False

    # Life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start. No request is sent yet."""
        if self._is_closed:
            raise Closed("this consumer is closed: make another")
        if not self._is_started:
            await self._offsets.load()
            self._is_started = True

    async def close(self) -> None:
        """Close the connections, unless other clients share the session."""
        self._is_closed = True
        await self._lease.end()

    # Messages

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of a topic. Raises NoRoute if the topic has no route."""
        self._check_open()
        return await self.fetch_subscribe_queues(topic)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count: int = 32,
        tags: str = ALL,
        *,
        sql: str | None = None,
    ) -> PullResult:
        """Return messages from this offset on; an empty result at the end of the queue.

        Brokers may return fewer messages than `count`: continue at `next_offset` of the result.

        Args:
            queue: The queue.
            offset: The first offset, 0 or more.
            count: The most messages to return, 1 to 1024.
            tags: Tags, separated by `||`; `*` for all messages.
            sql: An SQL92 expression over message properties, instead of tags.

        Raises:
            BadSetting: An argument is invalid.
            NoRoute, Unreachable, TimedOut, Refused: The broker did not answer, or refused.
        """
        return await self._pull(queue, offset, count, tags, sql, suspend_ms=0)

    async def pull_or_wait(
        self,
        queue: MessageQueue,
        offset: int,
        count: int = 32,
        tags: str = ALL,
        *,
        sql: str | None = None,
    ) -> PullResult:
        """As `pull`; at the end of the queue, wait up to `broker_suspend_max_time`."""
        suspend_ms = duration_ms(self.config.broker_suspend_max_time)
        return await self._pull(queue, offset, count, tags, sql, suspend_ms=suspend_ms)

    async def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Let the broker redeliver a message to the group later.

        It is redelivered through the group's retry topic, which push consumers read.

        Args:
            message: The message.
            delay_level: 0 for a longer delay each time, 1 to 18 for a level of the broker's
                `messageDelayLevel`, -1 to make it a dead letter.

        Raises:
            Unreachable: No broker accepted the message.
        """
        self._check_open()
        check_delay_level(delay_level)
        await self._queries.master_of(message.queue)
        if not await self._send_back.send(message, delay_level):
            raise Unreachable(f"no broker accepts {message} back: try again later")

    # Offsets

    async def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of the group; None if it never committed.

        Brokers answer 0 for a small queue with all its messages, which a new group receives.
        """
        self._check_open()
        return await self._offsets.kept(self._namespace.wire_queue(queue))

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit the offset at which the group continues."""
        self._check_open()
        if offset < 0:
            raise BadSetting(f"offset {offset} is below 0: commit the one to be read next")
        await self._offsets.commit(self._namespace.wire_queue(queue), offset)

    # Internals

    async def _pull(
        self,
        queue: MessageQueue,
        offset: int,
        count: int,
        tags: str,
        sql: str | None,
        suspend_ms: int,
    ) -> PullResult:
        self._check_open()
        if offset < 0:
            raise BadSetting(f"offset {offset} is below 0: see min_offset()")
        if not 1 <= count <= _COUNT_MAX:
            raise BadSetting(f"count is {count}: it must be from 1 to {_COUNT_MAX}")
        config = self.config
        return await self._pulls.pull(
            Pull(
                queue=self._namespace.wire_queue(queue),
                offset=offset,
                count=count,
                subscription=self._wanted(queue.topic, tags, sql),
                with_expression=True,
                suspend_ms=suspend_ms,
                timeout_ms=duration_ms(config.consumer_timeout_when_suspend)
                if suspend_ms
                else duration_ms(config.consumer_pull_timeout),
            )
        )

    def _wanted(self, topic: str, tags: str, sql: str | None) -> Subscription:
        wanted = Subscriptions(self._namespace.name, self._session.clock)
        found = wanted.of(wanted.add(topic, tags, sql))
        assert found is not None, "it was just added"
        return found

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("this consumer is closed: make another")
        if not self._is_started:
            raise Closed("this consumer is not started: use `async with`, or await start()")
        self._session.check_open()
