"""The one way to store messages: records side by side in the log, their units and their keys.

Everything that can be refused is checked before the first byte is written: the messages of a run
are stored together or not at all. Each step is done for all messages before the next one, because
what a step needs is then looked up once. A single message takes the same steps without columns: as
a run of one, a send costs 40 % more (bench/send_path.py). tests/store/test_batches.py compares the
two, byte for byte.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, repeat

from cometmq.errors import Malformed
from cometmq.store.disk_full import no_room
from cometmq.store.index.index import Index
from cometmq.store.index.tag_and_keys import all_marks, tag_code_and_keys
from cometmq.store.log.commit_log import CommitLog, LogFile
from cometmq.store.log.new_message import (
    NeedsNewFile,
    NewMessage,
    NewMessages,
    Prepared,
    RecordWriter,
)
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.queue_table import QueueTable
from cometmq.store.queue.results import Stored, StoredMessages
from cometmq.store.recovery.rebuild import TRANSACTION, UNQUEUED, Coder

# Called with topic, queue id, the queue's new end and tag code: once for each message, or once for
# each code if several messages were put in one queue.
Announce = Callable[[str, int, int, int], None]


class Appender:
    """Appends to the log, the queues and the index of one store."""

    def __init__(
        self,
        log: CommitLog,
        writer: RecordWriter,
        queues: QueueTable,
        index: Index | None,
        announce: Announce,
        coder: Coder | None,
    ) -> None:
        self._log = log
        self._writer = writer
        self._queues = queues
        self._index = index
        self._announce = announce
        self._coder = coder

    def append(
        self, messages: NewMessages, now_ms: int, *, internal: bool, in_this_file: bool
    ) -> StoredMessages:
        """All of them, in one file, or none; see `MessageStore.put_all` for what it raises."""
        prepared = self._writer.prepare(messages)
        codes, keys = all_marks(messages.properties_texts)
        sizes = [each[0] for each in prepared]
        size, key_count = sum(sizes), sum(map(len, keys))
        topic, queue_id = messages.topics[0], messages.queue_ids[0]
        queue = self._queues.open_to_puts(topic, queue_id)
        queues: list[ConsumeQueue] | None = None
        if not _are_in_one_queue(messages):
            queues = list(map(self._queues.open_to_puts, messages.topics, messages.queue_ids))
        if in_this_file and not self._log.has_room(size):
            raise NeedsNewFile
        try:
            file = self._log.room_for(size, internal=internal)
            if self._index is not None:
                self._index.reserve(key_count, internal=internal)
        except OSError as error:
            raise no_room(error) from error
        physical_offsets = list(accumulate(sizes[:-1], initial=file.end))
        if queues is None:
            end = queue.end + len(sizes)
            stored = StoredMessages(physical_offsets, range(queue.end, end), sizes)
        else:
            stored = StoredMessages(physical_offsets, _queue_offsets(messages, queues), sizes)
        self._write(file, messages, prepared, stored, size, now_ms)
        if self._index is not None:
            self._index.add(messages.topics, keys, physical_offsets, now_ms, key_count)
        if self._coder is not None:
            texts = messages.properties_texts
            codes = list(map(self._coder, messages.topics, texts, codes, repeat(now_ms)))
        if queues is not None:
            self._queue_each(messages, queues, codes, stored)
            return stored
        queue.append_all(physical_offsets, sizes, codes)
        # Equal codes may belong to different filter bits: those are different objects.
        for code in codes if len(codes) == 1 else {id(code): code for code in codes}.values():
            self._announce(topic, queue_id, end, code)
        return stored

    def append_one(self, message: NewMessage, now_ms: int, *, internal: bool) -> Stored:
        """The same as `append` of a run of one."""
        topic, queue_id = message.topic, message.queue_id
        prepared = self._writer.prepare_one(message)
        size = prepared[0]
        code, keys = tag_code_and_keys(message.properties_text)
        queue = self._queues.open_to_puts(topic, queue_id)
        queued = message.sys_flag & TRANSACTION not in UNQUEUED
        queue_offset = queue.end if queued else 0
        try:
            file = self._log.room_for(size, internal=internal)
            if self._index is not None:
                self._index.reserve(len(keys), internal=internal)
        except OSError as error:
            raise no_room(error) from error
        at = file.written
        offset = file.base + at
        try:
            self._writer.write_one(file.memory, at, offset, queue_offset, now_ms, message, prepared)
        except Malformed:
            file.memory[at : at + size] = bytes(size)
            raise
        file.written = at + size
        if self._index is not None:
            self._index.add((topic,), (keys,), (offset,), now_ms, len(keys))
        if queued:
            if self._coder is not None:
                code = self._coder(topic, message.properties_text, code, now_ms)
            queue.append(offset, size, code)
            self._announce(topic, queue_id, queue_offset + 1, code)
        return Stored(offset, queue_offset, size, offset + size)

    def _write(
        self,
        file: LogFile,
        messages: NewMessages,
        prepared: Sequence[Prepared],
        stored: StoredMessages,
        size: int,
        now_ms: int,
    ) -> None:
        at = file.written
        try:
            self._writer.write(file.memory, file.base, now_ms, messages, prepared, stored)
        except Malformed:
            file.memory[at : at + size] = bytes(size)
            raise
        file.written = at + size

    def _queue_each(
        self,
        messages: NewMessages,
        queues: Sequence[ConsumeQueue],
        codes: Sequence[int],
        stored: StoredMessages,
    ) -> None:
        announce = self._announce
        rows = zip(
            queues,
            stored.physical_offsets,
            stored.sizes,
            codes,
            messages.topics,
            messages.queue_ids,
            stored.queue_offsets,
            messages.sys_flags,
            strict=True,
        )
        for queue, offset, size, code, topic, queue_id, queue_offset, sys_flag in rows:
            if not sys_flag or sys_flag & TRANSACTION not in UNQUEUED:
                queue.append(offset, size, code)
                announce(topic, queue_id, queue_offset + 1, code)


def _are_in_one_queue(messages: NewMessages) -> bool:
    """As those of a batch: 0.9 us a message less. Half messages are in no queue."""
    topics, queue_ids = messages.topics, messages.queue_ids
    count = len(topics)
    return (
        (count == 1 or topics.count(topics[0]) == count)
        and (count == 1 or queue_ids.count(queue_ids[0]) == count)
        and not any(messages.sys_flags)
    )


def _queue_offsets(messages: NewMessages, queues: Sequence[ConsumeQueue]) -> list[int]:
    """From the ends of the queues on; 0 for a message that is in no queue."""
    ends: dict[ConsumeQueue, int] = {}
    queue_offsets = []
    for queue, sys_flag in zip(queues, messages.sys_flags, strict=True):
        if sys_flag and sys_flag & TRANSACTION in UNQUEUED:
            queue_offsets.append(0)
        else:
            queue_offset = ends.get(queue, queue.end)
            ends[queue] = queue_offset + 1
            queue_offsets.append(queue_offset)
    return queue_offsets
