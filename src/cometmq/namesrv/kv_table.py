"""Key-value configuration: namespace to key to value, in a file that Apache RocketMQ can read."""

import asyncio
import logging
from functools import partial
from pathlib import Path

from cometmq.errors import BadState, CannotKeep, Malformed, TooLarge
from cometmq.protocol.bodies.tables import KvConfigTable
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.limits import KV_SIZE_MAX
from cometmq.seams import Disk

log = logging.getLogger(__name__)

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"


class KvTable:
    """A change is on disk before it is acknowledged; one that cannot get there is not made.

    (After a disk error at the very end of a write, the file may have it all the same.)
    """

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._values = _load(disk, path)
        self._one_at_a_time = asyncio.Lock()

    def get(self, namespace: str, key: str) -> str | None:
        """The value; None if it is unset."""
        return self._values.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All keys and values of a namespace, if it was ever written to."""
        return self._values.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Create or change a value. TooLarge if all of them together would be too many."""
        async with self._one_at_a_time:
            await self._keep(namespace, self._values.get(namespace, {}) | {key: value})
        log.info("kv config %s %s is now %r", namespace, key, value)

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a value. A missing value is no error."""
        async with self._one_at_a_time:
            if self.get(namespace, key) is None:
                return
            values = self._values[namespace]
            await self._keep(namespace, {name: values[name] for name in values if name != key})
        log.info("kv config %s %s is gone", namespace, key)

    async def _keep(self, namespace: str, values: dict[str, str]) -> None:
        changed = self._values | {namespace: values}
        content = dumps(KvConfigTable(config_table=changed))
        if len(content) > KV_SIZE_MAX:
            raise TooLarge(f"{len(content)} bytes of kv config, the limit is {KV_SIZE_MAX}")
        await asyncio.wrap_future(
            self._disk.begin(partial(self._disk.replace, self._path, content))
        )
        self._values = changed


def _load(disk: Disk, path: Path) -> dict[str, dict[str, str]]:
    try:
        return loads(disk.read(path), KvConfigTable).config_table
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CannotKeep(f"{path} cannot be read: {error.strerror}", "kvConfigPath") from error
    except Malformed as error:
        raise BadState(f"{path} is damaged: {error}; repair it or move it away") from error
