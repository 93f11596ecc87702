"""Consumer groups as this broker serves them."""

from pathlib import Path

from cometmq.broker.config import BrokerConfig
from cometmq.broker.tables.versioned_table import VersionedTable
from cometmq.errors import Refused
from cometmq.protocol.bodies.tables import GroupConfig, GroupConfigTable
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.names import BUILT_IN_GROUPS, check_group, is_system_group
from cometmq.seams import Clock, Disk
from cometmq.settings.live_settings import LiveSettings

# Groups of the system's own that every broker has from the start, and that may broadcast.
_FROM_THE_START = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)


class GroupTable(VersionedTable[GroupConfig]):
    """Group name to its configuration, persisted in subscriptionGroup.json."""

    def __init__(self, disk: Disk, path: Path, clock: Clock, settings: LiveSettings) -> None:
        super().__init__(disk, path, clock)
        self._settings = settings

    def load(self) -> None:
        """Read the file, and add the groups that every broker has."""
        self._entries.update({name: GroupConfig(group_name=name) for name in _FROM_THE_START})
        kept = self.file.read(GroupConfigTable)
        if kept is not None:
            self._entries.update(kept.subscription_group_table)
            self._version = kept.data_version

    @property
    def body(self) -> GroupConfigTable:
        """The whole table, as sent to slaves and written to the file."""
        return GroupConfigTable(
            data_version=self._version, subscription_group_table=dict(sorted(self._entries.items()))
        )

    def _name_of(self, group: GroupConfig) -> str:
        return group.group_name

    def _check(self, name: str) -> str:
        return check_group(name)

    def find(self, name: str) -> GroupConfig | None:
        """A group; one that is not known and may be made as it would be, for `keep` to make it."""
        found = self._entries.get(name)
        if found is None and (
            self._settings.now(BrokerConfig).auto_create_subscription_group
            or is_system_group(name)
            or name in BUILT_IN_GROUPS
        ):
            return GroupConfig(group_name=check_group(name))
        return found

    def known(self, name: str) -> GroupConfig:
        """As `find`. Raises Refused if the group is unknown and may not be created."""
        group = self.find(name)
        if group is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist: create it, or set "
                "autoCreateSubscriptionGroup=true",
            )
        return group
