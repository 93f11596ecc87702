"""From the settings that a person gave to those of a broker and its store."""

import errno
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from cometmq.broker.config import BrokerConfig
from cometmq.errors import BadSetting, CannotKeep, InUse, Unreachable
from cometmq.local_address import local_ip
from cometmq.remoting.address import parse_address
from cometmq.settings import build_all
from cometmq.store.config import StoreConfig


def broker_settings(
    values: Mapping[str, str], config_path: Path | None = None
) -> tuple[BrokerConfig, StoreConfig]:
    """The values over what this machine suggests; BadSetting names the key that is wrong."""
    given = {
        "brokerName": socket.gethostname(),
        "brokerIP1": local_ip(),
        "storePathRootDir": str(Path.home() / "store"),
        "namesrvAddr": os.environ.get("NAMESRV_ADDR", ""),
        "brokerConfigPath": str(config_path or ""),  # empty: beside the store
    }
    built = build_all((BrokerConfig, StoreConfig), given | dict(values))
    config, store_config = cast(tuple[BrokerConfig, StoreConfig], built)
    _check_addresses(config.namesrv_addr)
    return config, store_config


def _check_addresses(name_servers: str) -> None:
    """One that no connection can ever be made to would be a broker that nobody finds."""
    try:
        for each in filter(None, name_servers.split(";")):
            parse_address(each)
    except Unreachable as error:
        raise BadSetting(f"namesrvAddr: {error}") from error


@contextmanager
def telling_where(config: StoreConfig) -> Iterator[None]:
    """A store that cannot be opened: told with the setting that chooses another place for it."""
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
        if error.filename not in (None, folder):
            why = f"{error.filename}: {why}"
        raise CannotKeep(
            f"no store can be kept in {folder}: {why}",
            "storePathCommitLog" if is_apart else "storePathRootDir",
        ) from error
