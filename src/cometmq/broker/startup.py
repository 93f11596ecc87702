"""Turns the given settings into those of a broker and its store."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

from msgspec import structs

from cometmq.broker.config import BrokerConfig
from cometmq.broker.update_rules import UPDATE_RULES
from cometmq.disk import RealDisk
from cometmq.errors import BadSetting, CannotKeep, InUse, Unreachable
from cometmq.local_address import local_ip
from cometmq.protocol.filter.bloom import BloomFilter
from cometmq.remoting.address import parse_address
from cometmq.seams import Disk
from cometmq.settings.live_settings import SettingsFile
from cometmq.settings.settings import Settings, build_all
from cometmq.settings.start_settings import Given, at_start
from cometmq.settings.unused_settings import FixedBrokerConfig, IgnoredBrokerConfig
from cometmq.store.config import StoreConfig

CHANGES_FILE = "broker.properties"  # in the root of the store, if there is no -c file


class BrokerSettings(NamedTuple):
    """The settings of a broker at start."""

    config: BrokerConfig
    store: StoreConfig
    unused: tuple[Settings, ...]
    file: SettingsFile


def broker_settings(given: Given, disk: Disk | None = None) -> BrokerSettings:
    """The given values over defaults of this machine. Raises BadSetting with the wrong key."""
    suggested = {
        "brokerName": socket.gethostname(),
        "brokerIP1": local_ip(),
        "storePathRootDir": str(Path.home() / "store"),
        "namesrvAddr": os.environ.get("NAMESRV_ADDR", ""),
    }
    root = Path(given.value("storePathRootDir", suggested["storePathRootDir"]))
    values, places, file = at_start(
        given, "brokerConfigPath", root / CHANGES_FILE, UPDATE_RULES, disk or RealDisk()
    )
    shapes = (BrokerConfig, StoreConfig, IgnoredBrokerConfig, FixedBrokerConfig)
    built = cast(
        tuple[BrokerConfig, StoreConfig, IgnoredBrokerConfig, FixedBrokerConfig],
        build_all(shapes, suggested | values, places=places),
    )
    config, store_config, ignored, fixed = built
    _check_addresses(config.namesrv_addr, places.get("namesrvAddr"))
    # Apache's broker sets these at start, whatever a file says.
    bloom = BloomFilter(
        config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter
    )
    fixed = structs.replace(
        fixed,
        ha_listen_port=config.listen_port + 1,
        bit_map_length_consume_queue_ext=bloom.bits_max,
    )
    return BrokerSettings(config, store_config, (ignored, fixed), file)


def _check_addresses(name_servers: str, place: str | None) -> None:
    """Raises BadSetting for a malformed address: clients could never find the broker."""
    try:
        for each in filter(None, name_servers.split(";")):
            parse_address(each)
    except Unreachable as error:
        at = "" if place is None else f"{place}: "
        raise BadSetting(f"{at}namesrvAddr: {error}") from error


@contextmanager
def telling_where(config: StoreConfig) -> Iterator[None]:
    """Translate failures to open the store into CannotKeep with the setting to change."""
    try:
        yield
    except InUse as error:
        raise CannotKeep(str(error), "storePathRootDir") from error
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # another place would not help
        apart = config.store_path_commit_log
        is_apart = bool(apart) and str(error.filename).startswith(apart)
        folder = apart if is_apart else config.store_path_root_dir
        why = "part of its path is a file" if isinstance(error, FileExistsError) else error.strerror
        if error.filename is not None and str(error.filename) != str(folder):
            why = f"{error.filename}: {why}"
        raise CannotKeep(
            f"no store can be kept in {folder}: {why}",
            "storePathCommitLog" if is_apart else "storePathRootDir",
        ) from error
