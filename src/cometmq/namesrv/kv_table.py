"""Key-value configuration: namespace to key to value, in a file that the original reads too."""

import logging
from pathlib import Path

from cometmq.errors import BadState, Malformed
from cometmq.protocol.bodies.tables import KvConfigTable
from cometmq.protocol.fastjson import dumps, loads
from cometmq.seams import Disk

log = logging.getLogger(__name__)

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"


class KvTable:
    """Every change is on disk before it is acknowledged, and in memory only if it got there."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._values = _load(disk, path)

    def get(self, namespace: str, key: str) -> str | None:
        """The value, if there is one."""
        return self._values.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All keys and values of a namespace, if it was ever written to."""
        return self._values.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Create or change a value."""
        self._keep(namespace, self._values.get(namespace, {}) | {key: value})
        log.info("kv config %s %s is now %r", namespace, key, value)

    def delete(self, namespace: str, key: str) -> None:
        """Remove a value; one that is not there is no error."""
        if self.get(namespace, key) is None:
            return
        rest = {name: value for name, value in self._values[namespace].items() if name != key}
        self._keep(namespace, rest)
        log.info("kv config %s %s is gone", namespace, key)

    def _keep(self, namespace: str, values: dict[str, str]) -> None:
        changed = self._values | {namespace: values}
        self._disk.replace(self._path, dumps(KvConfigTable(config_table=changed)))
        self._values = changed


def _load(disk: Disk, path: Path) -> dict[str, dict[str, str]]:
    try:
        return loads(disk.read(path), KvConfigTable).config_table
    except FileNotFoundError:
        return {}
    except (OSError, Malformed) as error:
        raise BadState(f"{path} cannot be read: {error}; repair it or move it away") from error
