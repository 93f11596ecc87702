"""Changes of consumer offsets: reset to a time, clone of another group's offsets."""

import asyncio
import logging
from dataclasses import dataclass

from cometmq.background import shielded
from cometmq.broker.handlers.checks import Checks
from cometmq.broker.tables.clients import Client
from cometmq.broker.tables.identity import Identity
from cometmq.broker.tables.tables import Tables
from cometmq.errors import PeerError, Refused, WorldError
from cometmq.protocol.bodies.consumer import QueueOffset, ResetOffsets, ResetOffsetsFlat
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.consumer import CloneOffsetHeader, ResetOffsetHeader
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.names import check_group
from cometmq.remoting.dispatch import Call, Reply
from cometmq.store.message_store import MessageStore

log = logging.getLogger(__name__)

_TO_THE_END = -1  # as a time: past all messages
_PATIENCE_MS = 5_000
_FLAT_FOR = "CPP"


@dataclass(frozen=True, slots=True)
class ResetHandlers:
    """Resets and clones of consumer offsets."""

    checks: Checks
    tables: Tables
    store: MessageStore
    identity: Identity

    async def reset(self, call: Call, ask: ResetOffsetHeader) -> Reply:
        """INVOKE_BROKER_TO_RESET_OFFSET.

        The offsets are moved here, so that it works for a group that is not online, and for members
        that do not listen; those that do are told, and drop what they hold.
        """
        topic = self.checks.topics.get(ask.topic)
        if topic is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"[reset-offset] reset offset failed, no topic in this broker. topic={ask.topic}",
            )
        self._refuse_unknown(ask.group)
        group = self.tables.clients.consumers.get(ask.group)
        members = list(group.members.values()) if group is not None else []
        count = max(topic.read_queue_nums, topic.write_queue_nums)
        table = {queue_id: self._target(ask, queue_id) for queue_id in range(count)}
        for queue_id, offset in table.items():
            self.tables.offsets.commit(ask.group, ask.topic, queue_id, offset)
        wants_flat = call.command.language == _FLAT_FOR
        # Also if the asker leaves: members that are not told would set them back.
        await shielded(self._save_and_tell(members, ask, table, wants_flat))
        return Reply(body=dumps(ResetOffsets(offset_table=self._queues(ask.topic, table))))

    async def _save_and_tell(
        self, members: list[Client], ask: ResetOffsetHeader, table: dict[int, int], wants_flat: bool
    ) -> None:
        await self.tables.offsets.file.save()
        await asyncio.gather(*(self._tell(each, ask, table, wants_flat) for each in members))

    async def clone(self, call: Call, ask: CloneOffsetHeader) -> Reply:
        """CLONE_GROUP_OFFSET: of one topic, or of all that the source has offsets in."""
        check_group(ask.dest_group)
        self._refuse_unknown(ask.src_group)
        if ask.topic and ask.topic.strip():
            names = [ask.topic]
        else:
            names = self.tables.offsets.topics_of(ask.src_group)
        online = self.tables.clients.consumers.get(ask.src_group)
        for name in names:
            is_wanted = ask.offline or online is None or name in online.subscriptions
            if is_wanted and self.checks.topics.get(name) is not None:
                self.tables.offsets.clone(ask.src_group, ask.dest_group, name)
        await self.tables.offsets.file.save()
        return Reply()

    def _refuse_unknown(self, name: str) -> None:
        """Refuse a group that is offline, not configured and without offsets: a typo."""
        is_known = name in self.tables.clients.consumers or self.tables.groups.get(name) is not None
        if not is_known and not self.tables.offsets.topics_of(name):
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The consumer group <{name}> not exist")

    def _target(self, ask: ResetOffsetHeader, queue_id: int) -> int:
        """The new offset of a queue. It moves forward only if `isForce` is true."""
        if ask.timestamp == _TO_THE_END:
            offset = self.store.bounds(ask.topic, queue_id)[1]
        else:
            offset = self.store.offset_by_time(ask.topic, queue_id, ask.timestamp)
        known = self.tables.offsets.get(ask.group, ask.topic, queue_id)
        return offset if ask.is_force or known is None else min(offset, known)

    def _queues(self, topic: str, table: dict[int, int]) -> dict[MessageQueue, int]:
        name = self.identity.name
        return {MessageQueue(topic, name, queue_id): table[queue_id] for queue_id in table}

    async def _tell(
        self, client: Client, ask: ResetOffsetHeader, table: dict[int, int], wants_flat: bool
    ) -> None:
        body: ResetOffsets | ResetOffsetsFlat
        if wants_flat or client.language == _FLAT_FOR:
            body = ResetOffsetsFlat(
                offset_table=[
                    QueueOffset(
                        broker_name=self.identity.name,
                        offset=offset,
                        queue_id=queue_id,
                        topic=ask.topic,
                    )
                    for queue_id, offset in table.items()
                ]
            )
        else:
            body = ResetOffsets(offset_table=self._queues(ask.topic, table))
        code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        try:
            await client.link.send_oneway(code, ask, dumps(body), timeout_ms=_PATIENCE_MS)
        except (PeerError, WorldError) as error:
            log.warning("reset of %s not told to %s: %s", ask.group, client.client_id, error)
