"""The lite pull consumer: it reads queues ahead, and whoever wants messages polls for them.

What a poll returned is committed once the next poll says that it is done: a consumer that dies gets
it again. A commit by hand covers all that polls returned, as its caller knows what is done.
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

_LOOK_MS = 1_000  # at whether a shared session is still open, while no message comes


class LitePullConsumer(EventSource):
    """See the top of the file. It has one reader at a time: two would call each other's work done.

    Queues are named without the namespace of the client.
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
        # The offsets of a broadcasting reader are filed under its name.
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
        await self._close(is_all_done=error is None)  # what failed shall come again

    async def start(self) -> None:
        """Join the group and begin to read. Brokers that are not there are waited for.

        Where it fails, the consumer is closed.
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
        """Commit what was polled, unless that is done by hand, and leave the group."""
        await self._close(is_all_done=True)

    # What to read

    def subscribe(self, topic: str, tags: str = ALL, *, sql: str | None = None) -> None:
        """Share the queues of a topic with the other members of the group.

        Tags are separated by `||`; an SQL expression chooses by properties instead.
        """
        self._check_open()
        self._member.subscribe(topic, tags, sql)
        self._announce()

    def unsubscribe(self, topic: str) -> None:
        """Leave its queues to the others."""
        self._check_open()
        self._member.unsubscribe(topic)
        self._announce()

    def assign(
        self, queues: Iterable[MessageQueue], tags: str = ALL, *, sql: str | None = None
    ) -> None:
        """Read these queues and no others, whoever else may: no rebalance takes them away."""
        self._check_open()
        self._member.assign(map(self._namespace.wire_queue, queues), tags, sql)
        self._announce()

    def assignment(self) -> list[MessageQueue]:
        """The queues that it reads now."""
        return self._namespace.bare_queues(self._assignment.queues)

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be read; NoRoute if it has none."""
        self._check_open()
        route = await self._session.routes.fetch(self._namespace.wire(topic))
        return self._namespace.bare_queues(route.to_read)

    def on_queues_changed(self, topic: str, callback: OnQueuesChanged) -> None:
        """Call it with the topic and all its queues, when they have changed."""
        self._check_open()
        self._watch.add(topic, callback)
        if self._is_started:
            self._session.background.start(self._watch.check(), "watch of queues")

    # Messages

    async def poll(self, timeout: Timeout = None) -> list[ReceivedMessage]:
        """The next messages of one queue: `pull_batch_size` at most, none after the timeout.

        The timeout is in seconds or a timedelta; the default is `poll_timeout`. What the last poll
        returned counts as done.
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
        """The next message, however long that takes; it ends when the consumer is closed."""
        while not self._closing.has_begun:
            message = self._assignment.take_one()
            if message is not None:
                return message
            await self._wait()
        raise StopAsyncIteration

    async def batches(self) -> AsyncIterator[list[ReceivedMessage]]:
        """As `poll`, again and again until the consumer is closed."""
        self._check_reading()
        while not self._closing.has_begun:
            messages = self._assignment.take(self.config.pull_batch_size)
            if messages:
                yield messages
            else:
                await self._wait()

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Return nothing of these until they are resumed; what was read ahead stays."""
        for queue in self._assigned(queues):
            self._assignment.pause(queue)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Undo a pause."""
        for queue in self._assigned(queues):
            self._assignment.resume(queue)

    # Offsets

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on from this offset: the next poll returns nothing of what was read before.

        BadSetting if the queue has no such offset.
        """
        (wired,) = self._assigned([queue])
        queries = self._member.queries
        least, most = await asyncio.gather(queries.min_offset(wired), queries.max_offset(wired))
        if not least <= offset <= most:
            raise BadSetting(f"{queue} has offsets from {least} to {most}: {offset} is none of it")
        self._seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on from the oldest message that is there."""
        (wired,) = self._assigned([queue])
        self._seek(queue, await self._member.queries.min_offset(wired))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the next message that is sent."""
        (wired,) = self._assigned([queue])
        self._seek(queue, await self._member.queries.max_offset(wired))

    async def offset_for_timestamp(self, queue: MessageQueue, moment: datetime | int) -> int:
        """The offset of the message stored nearest to then, the earlier of two; 0 of none.

        So the last message, and not the end, for a time after it.
        """
        self._check_open()
        wired = self._namespace.wire_queue(queue)
        return await self._member.queries.offset_at(wired, moment_ms(moment))

    async def commit(
        self, queues: Mapping[MessageQueue, int] | Iterable[MessageQueue] | None = None
    ) -> None:
        """Have the group go on after what was polled, of these queues or of all.

        A mapping says how far, queue by queue. It raises what the first broker to fail says; those
        of the others are committed then.
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
        """What the group has committed; None if nothing ever was.

        Brokers say 0 of a queue that is short and has all its messages: a new group gets them.
        """
        self._check_open()
        return await self._member.offsets.kept(self._namespace.wire_queue(queue))

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of what polls return next; None while it is being found out."""
        (wired,) = self._assigned([queue])
        ahead = self._assignment.of(wired)
        return None if ahead is None else ahead.position

    # Within

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
        self._session.check_open()  # a shared one may end before us: then nothing comes any more
        await self._assignment.wait(_LOOK_MS)

    def _announce(self) -> None:
        if self._is_started:
            self._session.background.start(self._member.announce(), "heartbeat")

    def _seek(self, queue: MessageQueue, offset: int) -> None:
        (wired,) = self._assigned([queue])  # it may be another's by now
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
                raise BadSetting(f"{queue} is not read here, or not any more: see assignment()")
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
            raise BadSetting("there is nothing to poll: subscribe to a topic, or assign queues")
