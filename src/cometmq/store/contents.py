"""The data of a store, as its background work sees it."""

import msgspec

from cometmq.store.index.index import Index
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.queue_table import QueueTable


class StoreContents(msgspec.Struct, frozen=True):
    """The log, and the queues and the index that point into it."""

    log: CommitLog
    queues: QueueTable
    index: Index | None  # None if messageIndexEnable is false


class FlushState(msgspec.Struct):
    """What the last flush reached. `Housekeeping` writes it, `Retention` reads it."""

    vouched_end: int  # log, units and keys before this offset are on disk
    failure: OSError | None = None  # of the last flush
