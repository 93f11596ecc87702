"""Turns the given settings into those of a name server."""

from pathlib import Path
from typing import NamedTuple, cast

from cometmq.disk import RealDisk
from cometmq.namesrv.config import UPDATE_RULES, NamesrvConfig
from cometmq.seams import Disk
from cometmq.settings.live_settings import SettingsFile
from cometmq.settings.settings import Settings, build_all
from cometmq.settings.start_settings import Given, at_start
from cometmq.settings.unused_settings import (
    FixedBrokerConfig,
    FixedServerConfig,
    IgnoredBrokerConfig,
    IgnoredServerConfig,
)

# Settings of a broker that have no effect: accepted, so that both servers may share a file.
_OF_BROKERS = frozenset(
    {
        *IgnoredBrokerConfig.__struct_encode_fields__,
        *FixedBrokerConfig.__struct_encode_fields__,
        "useTLS",
    }
)


class NamesrvSettings(NamedTuple):
    """The settings of a name server at start."""

    config: NamesrvConfig
    unused: tuple[Settings, ...]
    file: SettingsFile


def namesrv_settings(given: Given, home: Path, disk: Disk | None = None) -> NamesrvSettings:
    """The given values over the defaults. Raises BadSetting with the wrong key."""
    default = home / "namesrv.properties"
    values, places, file = at_start(
        given, "configStorePath", default, UPDATE_RULES, disk or RealDisk()
    )
    shapes = (NamesrvConfig, IgnoredServerConfig, FixedServerConfig)
    suggested = {"kvConfigPath": str(home / "kvConfig.json")}
    config, *unused = build_all(shapes, suggested | values, ignored=_OF_BROKERS, places=places)
    return NamesrvSettings(cast(NamesrvConfig, config), tuple(unused), file)
