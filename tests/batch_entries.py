"""Messages of a batch body one by one, as tests think of them; the code goes by columns."""

from collections.abc import Iterable
from dataclasses import dataclass

from cometmq.protocol.records.batch import pack_entries, unpack_columns


@dataclass(frozen=True, kw_only=True)
class BatchEntry:
    body: bytes
    flag: int = 0
    properties_text: str = ""


def pack_batch(entries: Iterable[BatchEntry]) -> bytes:
    return pack_entries((each.flag, each.body, each.properties_text.encode()) for each in entries)


def unpack_batch(data: bytes) -> list[BatchEntry]:
    columns = zip(*unpack_columns(data), strict=True)
    return [BatchEntry(flag=flag, body=body, properties_text=text) for flag, body, text in columns]
