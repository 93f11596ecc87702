"""Administration of consumer groups: create, change, list and delete."""

from dataclasses import dataclass

from cometmq.broker.tables.groups import GroupTable
from cometmq.broker.tables.offsets import ConsumerOffsets
from cometmq.errors import Refused
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.headers.group import DeleteGroupHeader
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.names import BUILT_IN_GROUPS, check_group, is_system_group
from cometmq.remoting.dispatch import Call, Reply

_RETRY_QUEUES_MAX = 65_536
_RETRIES_MIN = -1  # "as many as there may be"


@dataclass(frozen=True, slots=True)
class GroupHandlers:
    """Groups of this broker."""

    groups: GroupTable
    offsets: ConsumerOffsets

    async def update(self, call: Call, ask: NoHeader) -> Reply:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: answered when it is on disk."""
        group = loads(call.command.body, GroupConfig)
        check_group(group.group_name)
        if not 0 <= group.retry_queue_nums <= _RETRY_QUEUES_MAX:
            raise _bad(f"retryQueueNums is {group.retry_queue_nums}, not 0 to {_RETRY_QUEUES_MAX}")
        if group.retry_max_times < _RETRIES_MIN:
            raise _bad(f"retryMaxTimes is {group.retry_max_times}, not {_RETRIES_MIN} up")
        if group.broker_id < 0 or group.which_broker_when_consume_slowly < 0:
            raise _bad("brokerId and whichBrokerWhenConsumeSlowly are not below 0")
        self.groups.put(group)
        await self.groups.file.save()
        return Reply()

    def all(self, call: Call, ask: NoHeader) -> Reply:
        return Reply(body=dumps(self.groups.body))

    async def delete(self, call: Call, ask: DeleteGroupHeader) -> Reply:
        """DELETE_SUBSCRIPTIONGROUP: keeps its consumer offsets unless removeOffset is true."""
        name = check_group(ask.group_name)
        if is_system_group(name) or name in BUILT_IN_GROUPS:
            raise _bad(f"the group {name} is the system's own")
        self.groups.delete(name)
        if ask.remove_offset:
            self.offsets.forget_group(name)
        await self.groups.file.save()
        await self.offsets.file.save()
        return Reply()


def _bad(reason: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, reason)
