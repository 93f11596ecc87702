"""Heartbeats, unregistration and members of groups."""

from dataclasses import dataclass

from cometmq.broker.filtering.expressions import NotCompiled
from cometmq.broker.filtering.filters import Filters
from cometmq.broker.notices import Notices
from cometmq.broker.tables.clients import Client
from cometmq.broker.tables.tables import Tables
from cometmq.errors import Refused
from cometmq.protocol.bodies.heartbeat import (
    CheckClient,
    ConsumerData,
    ConsumerIds,
    decode_heartbeat,
)
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.headers.client import ConsumerGroupHeader, UnregisterClientHeader
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.names import check_group, check_topic, retry_topic
from cometmq.remoting.dispatch import Call, Outcome, Reply
from cometmq.seams import Clock


@dataclass(frozen=True, slots=True)
class ClientHandlers:
    """Heartbeats, unregistration and group membership."""

    tables: Tables
    filters: Filters
    notices: Notices
    clock: Clock

    def heartbeat(self, call: Call, ask: NoHeader) -> Reply:
        beat = decode_heartbeat(call.command.body)
        for producer in beat.producer_data_set:
            check_group(producer.group_name)
        configs = [self._group_of(consumer) for consumer in beat.consumer_data_set]
        for consumer, config in zip(beat.consumer_data_set, configs, strict=True):
            if config is None:  # its pulls are refused; other groups of the client have theirs
                continue
            self.tables.groups.keep(config)
            self.tables.topics.ensure(
                retry_topic(consumer.group_name),
                max(config.retry_queue_nums, 1),
                unit=consumer.unit_mode,
            )
        client = Client(
            link=call.link,
            client_id=beat.client_id,
            language=call.command.language,
            version=call.command.version,
            heard_ms=self.clock.monotonic_ms(),
            heard_wall_ms=call.received_ms,
        )
        self.notices.groups_changed(self.tables.clients.heard(beat, client))
        return Reply()

    def _group_of(self, consumer: ConsumerData) -> GroupConfig | None:
        """The group, once its retry topic is valid; None if it may not be created."""
        config = self.tables.groups.find(consumer.group_name)
        check_topic(retry_topic(consumer.group_name))
        return config

    def unregister(self, call: Call, ask: UnregisterClientHeader) -> Reply:
        changed = self.tables.clients.leave(call.link, ask.producer_group, ask.consumer_group)
        self.notices.groups_changed(changed)
        return Reply()

    def check_config(self, call: Call, ask: NoHeader) -> Outcome:
        checked = loads(call.command.body, CheckClient)
        if checked.subscription_data is None:
            return Reply()
        try:
            self.filters.check(checked.subscription_data)
        except NotCompiled as missing:
            return self._checked(missing)
        return Reply()

    async def _checked(self, missing: NotCompiled) -> Reply:
        await self.filters.compile(missing)
        return Reply()

    def members(self, call: Call, ask: ConsumerGroupHeader) -> Reply:
        group = self.tables.clients.consumers.get(ask.consumer_group)
        if group is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {ask.consumer_group}"
            )
        ids = sorted({client.client_id for client in group.members.values()})
        return Reply(body=dumps(ConsumerIds(consumer_id_list=ids)))
