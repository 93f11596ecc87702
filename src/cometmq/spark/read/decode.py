"""Decodes records to Arrow: the hot loop of the pipeline, without Python code per row.

The same decoder serves pull responses and mapped log files, because both contain records. A field
is read for all records in one step, through a view of the buffer as big-endian integers at every
byte. protocol/records/message.py defines the layout.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from cometmq.errors import Malformed, NotInstalled, TooLarge
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.limits import BODY_INFLATED_SIZE_MAX
from cometmq.protocol.records.compression import decompress
from cometmq.protocol.records.message import FIELD_OFFSETS, HEADS, MAGIC, body_crc
from cometmq.protocol.records.properties import KEYS, TAGS, UNIQ_KEY
from cometmq.spark.read.arrow_arrays import compute, constant, host_texts, string_lists, timestamps
from cometmq.spark.read.property_table import Bytes, Ints, PropertyTable, slices
from cometmq.spark.schema import arrow_schema

Mask = np.ndarray[Any, Any]

# Byte offsets in a record with two IPv4 hosts. An IPv6 host moves later fields by _V6_MORE.
_SIZE, _MAGIC, _CRC, _QUEUE_ID, _FLAG, *_LATER = FIELD_OFFSETS.values()
_QUEUE_OFFSET, _PHYSICAL, _SYS_FLAG, _BORN, _BORN_HOST, *_LATER = _LATER
_STORED, _STORE_HOST, _RECONSUMED, _, _BODY_SIZE = _LATER
_BODY = HEADS[0].size
_V6_MORE = HEADS[1].size - _BODY

_COMPRESSED = int(MessageFlag.COMPRESSED)
_TRANSACTION = int(MessageFlag.TRANSACTION)
_PREPARED, _ROLLBACK = int(MessageFlag.PREPARED), int(MessageFlag.ROLLBACK)
_SPACE, _NOT_ASCII = 32, 128  # bytes between these are never white space
_HEX = np.array([f"{byte:02X}".encode() for byte in range(256)])


class Records:
    """Records of one buffer, given by their start positions. Fields are decoded on demand."""

    def __init__(
        self, data: pa.Buffer, starts: Ints, inflated: Sequence[bytes] | None = None
    ) -> None:
        self._inflated = inflated  # the compressed bodies, inflated, if they are known
        self.data = data
        self.bytes: Bytes = np.frombuffer(data, np.uint8)
        self.starts = starts

    def __len__(self) -> int:
        return len(self.starts)

    # Both return self if all records are selected, which preserves cached fields.

    def where(self, chosen: Mask) -> "Records":
        """Return the records that the mask selects."""
        return self if bool(chosen.all()) else Records(self.data, self.starts[chosen])

    def part(self, start: int, stop: int) -> "Records":
        """Return the records from `start` up to, but not including, `stop`."""
        is_all = start <= 0 and stop >= len(self)
        return self if is_all else Records(self.data, self.starts[start:stop])

    # Fields of every record

    @cached_property
    def sizes(self) -> Ints:
        """Sizes of the records, in bytes."""
        return self._numbers(">i4", self.starts + _SIZE)

    @cached_property
    def queue_offsets(self) -> Ints:
        """Offsets in the queue."""
        return self._numbers(">i8", self.starts + _QUEUE_OFFSET)

    @cached_property
    def queue_ids(self) -> Ints:
        """Queue ids of the records."""
        return self._numbers(">i4", self.starts + _QUEUE_ID)

    @cached_property
    def physical_offsets(self) -> Ints:
        """Offsets in the commit log, as the records state them."""
        return self._numbers(">i8", self.starts + _PHYSICAL)

    @cached_property
    def stored_ms(self) -> Ints:
        """Store times, in milliseconds since 1970."""
        return self._numbers(">i8", self.starts + _STORED + self._born_more)

    @cached_property
    def is_delivered(self) -> Mask:
        """False for half messages and rollback records of transactions, which are in no queue."""
        kinds = self._sys_flags & _TRANSACTION
        found: Mask = (kinds != _PREPARED) & (kinds != _ROLLBACK)
        return found

    @cached_property
    def is_compressed(self) -> Mask:
        """Whether the body is compressed."""
        found: Mask = self._sys_flags & _COMPRESSED != 0
        return found

    @cached_property
    def is_whole(self) -> Mask:
        """Whether magic and sizes are consistent. Other fields are valid for whole records only."""
        room = len(self.bytes) - self.starts
        fits = room >= _BODY + 3
        good = fits.copy()
        if not fits.all():  # nothing may be read past the end of the buffer
            return self._whole_of(fits)
        good &= self._numbers(">i4", self.starts + _MAGIC) == MAGIC
        good &= (self.sizes >= _BODY + 3 + self._more) & (self.sizes <= room)
        body_sizes = self._at(">i4", _BODY_SIZE + self._more, good)
        topic_at = self.starts + _BODY + self._more + body_sizes
        ends = self.starts + self.sizes
        good &= (body_sizes >= 0) & (topic_at + 3 <= ends)
        properties_at = topic_at + 3 + np.where(good, self.bytes[np.where(good, topic_at, 0)], 0)
        good &= properties_at <= ends
        safe = np.where(good, properties_at - 2, 0)
        good &= self._numbers(">u2", safe) == ends - properties_at
        return good

    def _whole_of(self, fits: Mask) -> Mask:
        good = fits.copy()
        good[fits] = Records(self.data, self.starts[fits]).is_whole
        return good

    def check_whole(self) -> "Records":
        """Return self; Malformed unless all records are whole."""
        bad = np.flatnonzero(~self.is_whole)
        if len(bad):
            raise Malformed(f"the bytes at {self.starts[bad[0]]} are not a record")
        return self

    @cached_property
    def has_right_crc(self) -> Mask:
        """Whether the CRC of the body is right. One call per body: zlib has no bulk function."""
        wanted = self._numbers(">i4", self.starts + _CRC).tolist()
        memory, starts, ends = memoryview(self.data), self._body_at, self._body_end
        found = [
            body_crc(memory[start:end]) == crc
            for start, end, crc in zip(starts.tolist(), ends.tolist(), wanted, strict=True)
        ]
        return np.array(found, bool)

    @cached_property
    def ends_in_zeros(self) -> Mask:
        """Whether the properties, or the topic without properties, end in a zero: a torn write."""
        ends = self.starts + self.sizes
        topic_end = self._body_end + 1 + self.bytes[self._body_end]
        last = self.bytes[np.where(topic_end + 2 == ends, topic_end, ends) - 1]
        is_zero: Mask = last == 0
        return is_zero

    @cached_property
    def properties(self) -> PropertyTable:
        """The properties of all records."""
        starts = self._body_end + 3 + self.bytes[self._body_end]
        return PropertyTable(self.data, starts, self.starts + self.sizes)

    def batch(self, broker_name: str, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the rows of all records, which must be whole."""
        made = [_BUILDERS[name](self, broker_name) for name in columns]
        return pa.RecordBatch.from_arrays(made, schema=arrow_schema(columns))

    # Columns

    def topics(self) -> pa.Array:
        """Return the topics. Usually all records have the same one, which is checked first."""
        sizes = self.bytes[self._body_end]
        first_at, size = int(self._body_end[0]) + 1, int(sizes[0])
        if (sizes == size).all():
            first = self.bytes[first_at : first_at + size]
            if all(
                (self.bytes[self._body_end + 1 + at] == letter).all()
                for at, letter in enumerate(first)
            ):
                return constant(first.tobytes().decode(errors="replace"), len(self))
        found = slices(self.data, self._body_end + 1, self._body_end + 1 + sizes, pa.string())
        found.validate(full=True)
        return found

    def message_ids(self) -> pa.Array:
        """Return the senders' unique keys; the offset id where the key is missing."""
        unique = self.properties.column(UNIQ_KEY)
        if not unique.null_count:
            return unique
        missing = np.flatnonzero(unique.is_null())
        own = np.empty(len(self), object)
        own[missing] = self._offset_ids(missing)
        return compute().coalesce(unique, pa.array(own, pa.string()))

    def _offset_ids(self, rows: Ints) -> list[str]:
        """Return offset ids: store host and physical offset in hexadecimal."""
        some = Records(self.data, self.starts[rows])
        found = np.empty(len(rows), object)
        for is_v6, size in ((False, 8), (True, 20)):
            chosen = np.flatnonzero((some._store_more != 0) == is_v6)
            if len(chosen):
                host_at = (some.starts + _STORE_HOST + some._born_more)[chosen]
                packed = np.hstack(
                    [
                        self.bytes[host_at[:, None] + np.arange(size)],
                        self.bytes[(some.starts + _PHYSICAL)[chosen][:, None] + np.arange(8)],
                    ]
                )
                texts = _HEX[packed].view(f"S{2 * (size + 8)}").ravel()
                found[chosen] = texts.astype(f"U{2 * (size + 8)}")
        return found.tolist()

    def bodies(self) -> pa.Array:
        """Return the bodies, decompressed."""
        plain = slices(self.data, self._body_at, self._body_end, pa.binary())
        if not self.is_compressed.any():
            return plain
        inflated = self._inflated
        if inflated is None:
            inflated = [body for _, body in self.inflated()]
        mask = pa.array(self.is_compressed)
        return compute().replace_with_mask(plain, mask, pa.array(inflated, pa.binary()))

    def inflated(self) -> Iterator[tuple[int, bytes]]:
        """Yield the row and the decompressed body of each record whose body is compressed."""
        memory = memoryview(self.data)
        for row in np.flatnonzero(self.is_compressed).tolist():
            body = bytes(memory[self._body_at[row] : self._body_end[row]])
            try:
                found = decompress(body, int(self._sys_flags[row]), BODY_INFLATED_SIZE_MAX)
            except (Malformed, TooLarge, NotInstalled) as error:
                offset = int(self.queue_offsets[row])
                raise type(error)(f"the body at queue offset {offset}: {error}") from error
            yield row, found

    def with_bodies(self, start: int, stop: int, inflated: Sequence[bytes]) -> "Records":
        """Return the records from `start` to `stop`, with their inflated bodies."""
        return Records(self.data, self.starts[start:stop], inflated)

    def key_lists(self) -> pa.Array:
        """Return the words of the property KEYS."""
        words = self.properties.column(KEYS)
        if words.null_count == len(words):
            return string_lists(np.zeros(len(self), np.int32), pa.array([], pa.string()))
        is_word = np.asarray(words.is_valid())
        words = words.drop_null()
        letters = np.frombuffer(words.buffers()[2], np.uint8)
        counts = is_word.astype(np.int32)
        if ((letters <= _SPACE) | (letters >= _NOT_ASCII)).any():
            pc = compute()
            words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(words))
            found = words.flatten()
            is_some = np.asarray(pc.not_equal(found, ""))  # splitting blank text gives one ""
            ends = np.cumsum(np.asarray(pc.list_value_length(words)))
            ranks = np.concatenate(([0], np.cumsum(is_some)))
            counts[is_word] = np.diff(ranks[ends], prepend=0)
            words = found.filter(pa.array(is_some))
        return string_lists(counts, words)

    def born_hosts(self) -> pa.Array:
        """Return the addresses of the senders."""
        return self._hosts(self.starts + _BORN_HOST, self._born_more != 0)

    def store_hosts(self) -> pa.Array:
        """Return the addresses of the brokers that stored the messages."""
        return self._hosts(self.starts + _STORE_HOST + self._born_more, self._store_more != 0)

    def born_times(self) -> pa.Array:
        """Return the send times, by the clock of the sender."""
        return timestamps(self._numbers(">i8", self.starts + _BORN))

    def store_times(self) -> pa.Array:
        """Return the store times, by the clock of the broker."""
        return timestamps(self.stored_ms)

    def flags(self) -> pa.Array:
        """Return the user-defined flags."""
        return pa.array(self._numbers(">i4", self.starts + _FLAG), pa.int32())

    def reconsumed(self) -> pa.Array:
        """Return how often each message was sent back by a consumer."""
        return pa.array(self._numbers(">i4", self.starts + _RECONSUMED + self._more), pa.int32())

    # Parts

    def _numbers(self, kind: str, at: Ints) -> Ints:
        width = np.dtype(kind).itemsize
        every = np.ndarray((len(self.bytes) - width + 1,), kind, self.data, strides=(1,))
        return every[at].astype(np.int64)

    def _at(self, kind: str, more: Any, safe: Mask) -> Ints:
        return self._numbers(kind, np.where(safe, self.starts + more, 0))

    @cached_property
    def _sys_flags(self) -> Ints:
        return self._numbers(">i4", self.starts + _SYS_FLAG)

    @cached_property
    def _born_more(self) -> Ints:
        return (self._sys_flags >> 4 & 1) * _V6_MORE

    @cached_property
    def _store_more(self) -> Ints:
        return (self._sys_flags >> 5 & 1) * _V6_MORE

    @cached_property
    def _more(self) -> Ints:
        return self._born_more + self._store_more

    @cached_property
    def _body_at(self) -> Ints:
        return self.starts + _BODY + self._more

    @cached_property
    def _body_end(self) -> Ints:
        return self._body_at + self._numbers(">i4", self.starts + _BODY_SIZE + self._more)

    def _hosts(self, at: Ints, is_v6: Mask) -> pa.Array:
        """Return `ip:port` texts. Each distinct host is formatted once."""
        if not is_v6.any():
            return host_texts(self.bytes, at, 8)
        if is_v6.all():
            return host_texts(self.bytes, at, 20)
        parts = [host_texts(self.bytes, at[~is_v6], 8), host_texts(self.bytes, at[is_v6], 20)]
        order = np.argsort(is_v6, kind="stable")
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(pa.array(places))


_BUILDERS: dict[str, Callable[[Records, str], pa.Array]] = {
    "topic": lambda records, _: records.topics(),
    "brokerName": lambda records, broker_name: constant(broker_name, len(records)),
    "queueId": lambda records, _: pa.array(records.queue_ids, pa.int32()),
    "queueOffset": lambda records, _: pa.array(records.queue_offsets),
    "msgId": lambda records, _: records.message_ids(),
    "body": lambda records, _: records.bodies(),
    "tags": lambda records, _: records.properties.column(TAGS),
    "keys": lambda records, _: records.key_lists(),
    "properties": lambda records, _: records.properties.maps(),
    "flag": lambda records, _: records.flags(),
    "bornTimestamp": lambda records, _: records.born_times(),
    "storeTimestamp": lambda records, _: records.store_times(),
    "bornHost": lambda records, _: records.born_hosts(),
    "storeHost": lambda records, _: records.store_hosts(),
    "reconsumeTimes": lambda records, _: records.reconsumed(),
}
