"""Settings of a store, under the original's names."""

from enum import Enum
from typing import Annotated

from msgspec import Meta

from cometmq.settings.settings import Settings

_HOUR = r" *([01]?\d|2[0-3]) *"
_HOURS = f"^({_HOUR}(;{_HOUR})*;?)?$"


class FlushDiskType(Enum):
    """When a put is acknowledged: once it is in memory, or once it is on disk."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class StoreConfig(Settings):
    """How a broker keeps its messages. Sizes in bytes, times in ms unless said."""

    # What it promises
    store_path_root_dir: Annotated[str, Meta(description="folder of everything but the log")]
    store_path_commit_log: Annotated[
        str, Meta(description="folder of the log; empty: commitlog under the root")
    ] = ""
    flush_disk_type: Annotated[
        FlushDiskType, Meta(description="SYNC_FLUSH: a send is acknowledged once it is on disk")
    ] = FlushDiskType.ASYNC_FLUSH
    sync_flush_timeout: Annotated[
        int, Meta(ge=1, description="ms that a send waits for the disk under SYNC_FLUSH")
    ] = 5_000
    max_message_size: Annotated[int, Meta(ge=1024, description="of a body")] = 4 << 20
    message_index_enable: Annotated[bool, Meta(description="messages can be found by key")] = True
    enable_consume_queue_ext: Annotated[
        bool, Meta(description="queues have an extension, for enableCalcFilterBitMap")
    ] = False

    # How long it keeps them
    file_reserved_time: Annotated[int, Meta(ge=0, description="hours a full file is kept")] = 72
    delete_when: Annotated[
        str, Meta(pattern=_HOURS, description="hours of the day, 0 to 23, with ;")
    ] = "04"
    disk_max_used_space_ratio: Annotated[
        int, Meta(ge=1, le=100, description="percent past which old files go at any hour")
    ] = 75
    clean_file_forcibly_enable: Annotated[
        bool, Meta(description="past 85 % files go before their time")
    ] = True
    clean_resource_interval: Annotated[int, Meta(ge=100, description="ms between cleanings")] = (
        10_000
    )

    # How its files are cut; changing them needs an empty store
    mapped_file_size_commit_log: Annotated[int, Meta(ge=4096, description="a multiple of 4096")] = (
        1 << 30
    )
    mapped_file_size_consume_queue: Annotated[
        int, Meta(ge=20, description="rounded up to whole units of 20")
    ] = 300_000 * 20
    mapped_file_size_consume_queue_ext: Annotated[
        int, Meta(ge=1024, description="of the queues' extensions")
    ] = 48 << 20
    max_hash_slot_num: Annotated[int, Meta(ge=1, description="slots of an index file")] = 5_000_000
    max_index_num: Annotated[int, Meta(ge=2, description="entries of an index file")] = 20_000_000

    # How fast it goes
    flush_interval_commit_log: Annotated[
        int, Meta(ge=1, description="ms between flushes; what a power cut may cost under ASYNC")
    ] = 500
    flush_commit_log_least_pages: Annotated[
        int, Meta(ge=0, description="pages that must be dirty for a timed flush")
    ] = 4
    flush_commit_log_thorough_interval: Annotated[
        int, Meta(ge=1, description="ms after which even one byte is flushed")
    ] = 10_000
    flush_interval_consume_queue: Annotated[
        int, Meta(ge=1, description="ms between flushes of queues")
    ] = 1_000
    warm_maped_file_enable: Annotated[
        bool, Meta(description="touch and lock every page of a log file that is made ahead")
    ] = False
    flush_least_pages_when_warm_maped_file: Annotated[
        int, Meta(ge=1, description="pages that are touched between two syncs")
    ] = 4096
    max_transfer_bytes_on_message_in_memory: Annotated[int, Meta(ge=1)] = 256 << 10
    max_transfer_count_on_message_in_memory: Annotated[int, Meta(ge=1)] = 32
    max_transfer_bytes_on_message_in_disk: Annotated[int, Meta(ge=1)] = 64 << 10
    max_transfer_count_on_message_in_disk: Annotated[int, Meta(ge=1)] = 8
    access_message_in_memory_max_ratio: Annotated[
        int, Meta(ge=1, le=100, description="percent of memory that the log's end may fill")
    ] = 40
    max_msgs_num_batch: Annotated[int, Meta(ge=1, description="answers of a query by key")] = 64
    default_query_max_num: Annotated[
        int, Meta(ge=1, description="answers of a query by unique key")
    ] = 32
