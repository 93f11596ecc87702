"""The lite pull consumer: it reads queues ahead, and the user polls for messages.

Messages of a poll are done when the next poll is called; then they are committed. A manual commit
covers all messages that polls returned, because its caller knows what is done.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Self

from cometmq.client.closing import Closing
from cometmq.client.config import ClientConfig, LitePullConsumerConfig, config_of
from cometmq.client.consumer.lite.lite_member import LiteMember
from cometmq.client.consumer.lite.queue_watch import OnQueuesChanged, QueueWatch
from cometmq.client.consumer.shared.event_source import EventSource
from cometmq.client.durations import Timeout, duration_ms, moment_ms
from cometmq.client.message import ReceivedMessage
from cometmq.client.session.session import Session
from cometmq.client.session.session_handle import lease
from cometmq.errors import BadSetting, Closed
from cometmq.protocol.bodies.heartbeat import MessageModel
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.filter.tags import ALL

_CHECK_MS = 1_000  # how often to check that a shared session is open, while no message arrives


class LitePullConsumer(EventSource):
    """Read messages by polling or iterating, alone or as a member of a consumer group.

        async with LitePullConsumer("archive", "127.0.0.1:9876") as consumer:
            consumer.subscribe("orders")
            async for message in consumer:
                print(message.message_id, message.body)

    `subscribe` shares the queues of a topic with the other members of the group; `assign` reads
    chosen queues. Messages count as consumed when the next one is requested, and are committed at
    intervals, unless `auto_commit` is off. Delivery is at least once.

    Use one reader at a time: each poll marks the messages of the previous one as done. Queues are
    named without the namespace of the client.

    Args:
        group: The consumer group, or a `LitePullConsumerConfig`.
        name_servers: One or more `host:port` addresses; by default those of `NAMESRV_ADDR`.
        client: Settings of the client, instead of `name_servers`.
        session: A session to share with other clients, instead of `name_servers`.

    Raises:
        BadSetting: A setting is invalid.
    """

    def __init__(
        self,
        group: str | LitePullConsumerConfig,
        name_servers: str | Iterable[str] | None = None,
        *,
        client: ClientConfig | None = None,
        session: Session | None = None,
    ) -> None:
        self.config = config_of(LitePullConsumerConfig, group)
        # The offset file of a broadcasting consumer is named after its instance name.
        keep_name = self.config.message_model is MessageModel.BROADCASTING
        self._lease = lease(name_servers, client, session, keep_name=keep_name)
        super().__init__(self._lease.session)
        self._member = LiteMember(self._session, self.config, self._events)
        self._namespace = self._member.namespace
        self._assignment = self._member.assignment
        self._watch = QueueWatch(self._session.routes, self._namespace)
        self._tasks: list[asyncio.Task[None]] = []
        self._is_started = False
        self._closing = Closing()

    # Life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close(is_all_done=error is None)  # after an exception, messages are redelivered

    async def start(self) -> None:
        """Join the group and start to read. It waits for brokers that are not reachable.

        If it fails, the consumer is closed.

        Raises:
            Refused: A broker rejects a subscription.
            Closed: The consumer or its session is closed.
        """
        self._check_open()
        if self._is_started:
            return
        self._is_started = True
        member, config, background = self._member, self.config, self._session.background
        try:
            await member.join()
        except BaseException:
            await self._close(is_all_done=False)
            raise
        self._tasks = [
            background.start(member.keep_rebalancing(), "rebalance"),
            background.start(self._watch.check(), "watch of queues"),
            background.every(
                lambda: duration_ms(config.topic_metadata_check_interval),
                self._watch.check,
                "watch of queues",
            ),
        ]
        if config.auto_commit:
            self._tasks.append(
                background.every(
                    lambda: duration_ms(config.auto_commit_interval),
                    member.keep_done,
                    "commit of offsets",
                )
            )

    async def close(self) -> None:
        """Commit the messages that were polled, unless `auto_commit` is off, and leave the group.

        Repeated calls wait for the first. Cancelling the caller does not interrupt it.
        """
        await self._close(is_all_done=True)

    # What to read

    def subscribe(self, topic: str, tags: str = ALL, *, sql: str | None = None) -> None:
        """Subscribe to a topic, and share its queues with the other members of the group.

        Args:
            topic: The topic.
            tags: Tags, separated by `||`; `*` for all messages.
            sql: An SQL92 expression over message properties, instead of tags.

        Raises:
            BadSetting: The topic or the expression is invalid, or queues are assigned by hand.
        """
        self._check_open()
        self._member.subscribe(topic, tags, sql)
        self._announce()

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic, and leave its queues to the other members."""
        self._check_open()
        self._member.unsubscribe(topic)
        self._announce()

    def assign(
        self, queues: Iterable[MessageQueue], tags: str = ALL, *, sql: str | None = None
    ) -> None:
        """Read exactly these queues, without rebalance.

        Other consumers may read them too. Raises BadSetting after `subscribe`.
        """
        self._check_open()
        self._member.assign(map(self._namespace.wire_queue, queues), tags, sql)
        self._announce()

    def assignment(self) -> list[MessageQueue]:
        """The queues that it reads now, sorted."""
        return self._namespace.bare_queues(self._assignment.queues)

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of a topic. Raises NoRoute if the topic has no route."""
        self._check_open()
        route = await self._session.routes.fetch(self._namespace.wire(topic))
        return self._namespace.bare_queues(route.to_read)

    def on_queues_changed(self, topic: str, callback: OnQueuesChanged) -> None:
        """Call `callback` with the topic and all its queues when they have changed.

        Checked every `topic_metadata_check_interval`. The callback may be a coroutine function.
        """
        self._check_open()
        self._watch.add(topic, callback)
        if self._is_started:
            self._session.background.start(self._watch.check(), "watch of queues")

    # Messages

    async def poll(self, timeout: Timeout = None) -> list[ReceivedMessage]:
        """Return the next messages of one queue; an empty list after the timeout.

        Messages of the previous poll count as done.

        Args:
            timeout: Seconds or a timedelta; by default `poll_timeout`.

        Returns:
            At most `pull_batch_size` messages.

        Raises:
            BadSetting: It neither subscribes to a topic nor has assigned queues.
            Closed: The consumer is closed or not started.
        """
        self._check_reading()
        limit = self.config.pull_batch_size
        timeout_ms = duration_ms(self.config.poll_timeout if timeout is None else timeout)
        deadline_ms = self._session.clock.monotonic_ms() + timeout_ms
        while not (messages := self._assignment.take(limit)):
            left_ms = deadline_ms - self._session.clock.monotonic_ms()
            if left_ms <= 0:
                break
            await self._assignment.wait(left_ms)
            self._check_open()
        return messages

    def __aiter__(self) -> Self:
        self._check_reading()
        return self

    async def __anext__(self) -> ReceivedMessage:
        """Wait for the next message. The iteration ends when the consumer is closed."""
        while not self._closing.has_begun:
            message = self._assignment.take_one()
            if message is not None:
                return message
            await self._wait()
        raise StopAsyncIteration

    async def batches(self) -> AsyncIterator[list[ReceivedMessage]]:
        """Iterate over the lists that `poll` would return, until the consumer is closed."""
        self._check_reading()
        while not self._closing.has_begun:
            messages = self._assignment.take(self.config.pull_batch_size)
            if messages:
                yield messages
            else:
                await self._wait()

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Return no messages of these queues until `resume`; buffered messages stay."""
        for queue in self._assigned(queues):
            self._assignment.pause(queue)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Return messages of these queues again after `pause`."""
        for queue in self._assigned(queues):
            self._assignment.resume(queue)

    # Offsets

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at this offset; messages that were read ahead are discarded.

        Raises BadSetting if the queue has no such offset, or is not assigned.
        """
        (wired,) = self._assigned([queue])
        queries = self._member.queries
        least, most = await asyncio.gather(queries.min_offset(wired), queries.max_offset(wired))
        if not least <= offset <= most:
            raise BadSetting(f"{queue} has offsets from {least} to {most}, not {offset}")
        self._seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest message."""
        (wired,) = self._assigned([queue])
        self._seek(queue, await self._member.queries.min_offset(wired))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue with the next message that is sent."""
        (wired,) = self._assigned([queue])
        self._seek(queue, await self._member.queries.max_offset(wired))

    async def offset_for_timestamp(self, queue: MessageQueue, moment: datetime | int) -> int:
        """The offset of the message that was stored nearest to a time, the earlier of two.

        For a time after the last message, the last message; for an empty queue, 0.
        """
        self._check_open()
        wired = self._namespace.wire_queue(queue)
        return await self._member.queries.offset_at(wired, moment_ms(moment))

    async def commit(
        self, queues: Mapping[MessageQueue, int] | Iterable[MessageQueue] | None = None
    ) -> None:
        """Commit the messages that polls returned.

        Args:
            queues: The queues to commit, or a mapping from queue to offset; None for all queues.

        Raises:
            PeerError, WorldError: A broker failed. The offsets of other brokers are committed.
        """
        self._check_started()
        offsets = self._to_commit(queues)
        committed = await asyncio.gather(
            *(self._commit(queue, offset) for queue, offset in offsets.items()),
            return_exceptions=True,
        )
        for failure in committed:
            if failure is not None:
                raise failure

    async def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of the group; None if it never committed.

        Brokers answer 0 for a small queue with all its messages, which a new group receives.
        """
        self._check_open()
        return await self._member.offsets.kept(self._namespace.wire_queue(queue))

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the next message that polls return; None until it is known."""
        (wired,) = self._assigned([queue])
        ahead = self._assignment.of(wired)
        return None if ahead is None else ahead.position

    # Internals

    async def _close(self, *, is_all_done: bool) -> None:
        if not self._closing.has_begun:
            if is_all_done:
                self._assignment.put_down()
            self._closing.begin(self._end)
            self._assignment.wake_all()
        await self._closing.wait()

    async def _end(self) -> None:
        try:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            if self._is_started:
                await self._member.leave()
        finally:
            await self._lease.end()

    async def _wait(self) -> None:
        self._session.check_open()  # a shared session may be closed first
        await self._assignment.wait(_CHECK_MS)

    def _announce(self) -> None:
        if self._is_started:
            self._session.background.start(self._member.announce(), "heartbeat")

    def _seek(self, queue: MessageQueue, offset: int) -> None:
        (wired,) = self._assigned([queue])  # it may have been revoked meanwhile
        self._assignment.seek(wired, offset)

    def _to_commit(
        self, queues: Mapping[MessageQueue, int] | Iterable[MessageQueue] | None
    ) -> dict[MessageQueue, int]:
        if isinstance(queues, Mapping):
            return dict(zip(self._assigned(queues), queues.values(), strict=True))
        table = self._assignment.queues
        chosen = table if queues is None else self._assigned(queues)
        found = {queue: table[queue].position for queue in chosen}
        return {queue: offset for queue, offset in found.items() if offset is not None}

    async def _commit(self, queue: MessageQueue, offset: int) -> None:
        await self._member.offsets.commit(queue, offset)
        ahead = self._assignment.of(queue)
        if ahead is not None:
            ahead.put_down_to(offset)

    def _assigned(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        self._check_open()
        wired = [self._namespace.wire_queue(queue) for queue in queues]
        for queue in wired:
            if queue not in self._assignment:
                raise BadSetting(f"{queue} is not assigned to this consumer: see assignment()")
        return wired

    def _check_open(self) -> None:
        if self._closing.has_begun:
            raise Closed("this consumer is closed: make another")
        self._session.check_open()

    def _check_started(self) -> None:
        self._check_open()
        if not self._is_started:
            raise Closed("this consumer is not started: use `async with`, or await start()")

    def _check_reading(self) -> None:
        self._check_started()
        if not self._member.known_topics():
            raise BadSetting("nothing to poll: subscribe to a topic, or assign queues")
