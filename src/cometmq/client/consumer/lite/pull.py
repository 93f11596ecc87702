"""The pull consumer: it asks for what its owner says, from where its owner says.

It joins no group: nobody shares queues with it, and it takes none from those who do. Its group
says whose offsets it reads and commits, and where what it sends back comes again.
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

_COUNT_MAX = 1024  # as of the other consumers; brokers give fewer anyway


class PullConsumer(Asker):
    """See the top of the file. Queues are named without the namespace of the client."""

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
        """Be ready; nothing is asked of anybody yet."""
        if self._is_closed:
            raise Closed("this consumer is closed: make another")
        if not self._is_started:
            await self._offsets.load()
            self._is_started = True

    async def close(self) -> None:
        """End its connections, unless others share them."""
        self._is_closed = True
        await self._lease.end()

    # Messages

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be read; NoRoute if it has none."""
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
        """What is there from this offset on, at most so many messages; it waits for none.

        Brokers give fewer than they are asked for, as they are set to: go on from `next_offset`.
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
        """As `pull`; at the end of the queue it waits for a message, `broker_suspend_max_time`."""
        suspend_ms = duration_ms(self.config.broker_suspend_max_time)
        return await self._pull(queue, offset, count, tags, sql, suspend_ms=suspend_ms)

    async def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Have the broker bring it to the group again, later: 0 is later each time.

        It comes by the group's retry topic, which push consumers read. -1 makes it a dead letter.
        """
        self._check_open()
        check_delay_level(delay_level)
        await self._queries.master_of(message.queue)
        if not await self._send_back.send(message, delay_level):
            raise Unreachable(f"no broker takes {message} back just now: try again later")

    # Offsets

    async def committed(self, queue: MessageQueue) -> int | None:
        """What the group has committed; None if nothing ever was.

        Brokers say 0 of a queue that is short and has all its messages: a new group gets them.
        """
        self._check_open()
        return await self._offsets.kept(self._namespace.wire_queue(queue))

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Have the group go on from this offset."""
        self._check_open()
        if offset < 0:
            raise BadSetting(f"offset {offset} is below 0: commit the one to be read next")
        await self._offsets.commit(self._namespace.wire_queue(queue), offset)

    # Within

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
