"""Notifications from the broker to its clients."""

import asyncio
from collections.abc import Iterable

from cometmq.background import Background
from cometmq.broker.config import BrokerConfig
from cometmq.broker.tables.clients import Clients
from cometmq.broker.tables.groups import GroupTable
from cometmq.errors import PeerError, WorldError
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.client import ConsumerGroupHeader
from cometmq.remoting.dispatch import Link
from cometmq.settings.live_settings import LiveSettings

_PATIENCE_MS = 10_000


class Notices:
    """Notifies the members of a changed group, so that each rebalances its queues."""

    def __init__(
        self, clients: Clients, groups: GroupTable, settings: LiveSettings, background: Background
    ) -> None:
        self._clients = clients
        self._groups = groups
        self._settings = settings
        self._background = background
        self._due: set[str] = set()

    def groups_changed(self, groups: Iterable[str]) -> None:
        """Notify the members soon. Changes in quick succession cause one notification."""
        if not self._settings.now(BrokerConfig).notify_consumer_ids_changed_enable:
            return
        for group in groups:
            config = self._groups.get(group)
            if config is not None and not config.notify_consumer_ids_changed_enable:
                continue
            if group not in self._due:
                self._due.add(group)
                self._background.start(self._tell(group), f"notice to {group}")

    async def _tell(self, group: str) -> None:
        self._due.discard(group)
        # Concurrently: one unresponsive member must not delay the others.
        members = self._clients.links_of(group)
        await asyncio.gather(*(self._tell_one(link, group) for link in members))

    async def _tell_one(self, link: Link, group: str) -> None:
        header = ConsumerGroupHeader(consumer_group=group)
        code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        try:
            await link.send_oneway(code, header, timeout_ms=_PATIENCE_MS)
        except (PeerError, WorldError):
            return  # it is closed or unresponsive; when it is dropped, the group is notified
