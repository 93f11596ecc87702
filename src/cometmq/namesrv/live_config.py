"""The settings in force, of which a few may be changed while the server runs."""

import asyncio
import logging
from functools import partial
from pathlib import Path

from cometmq.errors import BadSetting, Refused
from cometmq.namesrv.config import CHANGEABLE, NamesrvConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.java import format_properties
from cometmq.seams import Disk
from cometmq.settings import as_texts, build, parse_file

log = logging.getLogger(__name__)


class LiveConfig:
    """`now` is replaced whole; what is changed is written to the settings' own file first."""

    def __init__(self, config: NamesrvConfig, disk: Disk) -> None:
        self.now = config
        self._disk = disk

    async def update(self, properties: bytes) -> None:
        """Change what the allow-list names; one key that it does not, and nothing changes."""
        try:
            changes = parse_file(properties, "the request")
            barred = sorted(changes.keys() - CHANGEABLE)
            if barred:
                allowed = ", ".join(sorted(CHANGEABLE))
                raise Refused(
                    ResponseCode.NO_PERMISSION,
                    f"{barred[0]} cannot be changed while the server runs; these can: {allowed}",
                )
            changed = build(NamesrvConfig, changes, base=self.now)
        except BadSetting as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        content = format_properties(as_texts(changed), escaped=True).encode()
        path = Path(changed.config_store_path)
        await asyncio.wrap_future(self._disk.begin(partial(self._disk.replace, path, content)))
        self.now = changed
        log.info("settings changed: %s", ", ".join(f"{k}={v}" for k, v in changes.items()))
