"""The settings of a store, with RocketMQ's names."""

from enum import Enum
from typing import Annotated

from msgspec import Meta

from cometmq.settings.settings import Settings

_HOUR = r" *([01]?\d|2[0-3]) *"
_HOURS = f"^({_HOUR}(;{_HOUR})*;?)?$"


class FlushDiskType(Enum):
    """Whether a put is acknowledged once it is in memory or once it is on disk."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class StoreConfig(Settings):
    """The settings of a store. Sizes in bytes, times in ms unless described otherwise."""

    # Paths and durability
    store_path_root_dir: Annotated[
        str, Meta(description="folder of all files except the commit log")
    ]
    store_path_commit_log: Annotated[
        str, Meta(description="folder of the commit log; empty: commitlog in storePathRootDir")
    ] = ""
    flush_disk_type: Annotated[
        FlushDiskType, Meta(description="SYNC_FLUSH: a send is acknowledged when it is on disk")
    ] = FlushDiskType.ASYNC_FLUSH
    sync_flush_timeout: Annotated[
        int, Meta(ge=1, description="ms that a send waits for the disk with SYNC_FLUSH")
    ] = 5_000
    max_message_size: Annotated[
        int, Meta(ge=1024, description="maximum size of a message body")
    ] = 4 << 20
    message_index_enable: Annotated[bool, Meta(description="index messages by key")] = True
    enable_consume_queue_ext: Annotated[
        bool, Meta(description="consume queues have an extension, for enableCalcFilterBitMap")
    ] = False

    # Retention
    file_reserved_time: Annotated[
        int, Meta(ge=0, description="hours after which a full log file is deleted")
    ] = 72
    delete_when: Annotated[
        str,
        Meta(
            pattern=_HOURS,
            description="hours of the day at which old files are deleted, 0 to 23, separated by ;",
        ),
    ] = "04"
    disk_max_used_space_ratio: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            description="disk use in percent above which old files are deleted at any hour",
        ),
    ] = 75
    clean_file_forcibly_enable: Annotated[
        bool, Meta(description="delete files early if more than 85 % of the disk is used")
    ] = True
    clean_resource_interval: Annotated[int, Meta(ge=100, description="ms between two cleanups")] = (
        10_000
    )

    # File sizes; a change needs an empty store
    mapped_file_size_commit_log: Annotated[
        int, Meta(ge=4096, description="size of a commit log file, a multiple of 4096")
    ] = 1 << 30
    mapped_file_size_consume_queue: Annotated[
        int, Meta(ge=20, description="size of a consume queue file, rounded up to a multiple of 20")
    ] = 300_000 * 20
    mapped_file_size_consume_queue_ext: Annotated[
        int, Meta(ge=1024, description="size of a consume queue extension file")
    ] = 48 << 20
    max_hash_slot_num: Annotated[int, Meta(ge=1, description="hash slots of an index file")] = (
        5_000_000
    )
    max_index_num: Annotated[int, Meta(ge=2, description="entries of an index file")] = 20_000_000

    # Flushing and reading
    flush_interval_commit_log: Annotated[
        int, Meta(ge=1, description="ms between flushes of the log; a power cut can lose this much")
    ] = 500
    flush_commit_log_least_pages: Annotated[
        int, Meta(ge=0, description="minimum number of dirty pages for a flush")
    ] = 4
    flush_commit_log_thorough_interval: Annotated[
        int, Meta(ge=1, description="ms after which a flush ignores flushCommitLogLeastPages")
    ] = 10_000
    flush_interval_consume_queue: Annotated[
        int, Meta(ge=1, description="ms between flushes of consume queues")
    ] = 1_000
    warm_maped_file_enable: Annotated[
        bool, Meta(description="write and lock every page of a new log file in memory")
    ] = False
    flush_least_pages_when_warm_maped_file: Annotated[
        int, Meta(ge=1, description="pages between two syncs with warmMapedFileEnable")
    ] = 4096
    max_transfer_bytes_on_message_in_memory: Annotated[
        int, Meta(ge=1, description="maximum bytes of a pull of recent messages")
    ] = 256 << 10
    max_transfer_count_on_message_in_memory: Annotated[
        int, Meta(ge=1, description="maximum messages of a pull of recent messages")
    ] = 32
    max_transfer_bytes_on_message_in_disk: Annotated[
        int, Meta(ge=1, description="maximum bytes of a pull of old messages")
    ] = 64 << 10
    max_transfer_count_on_message_in_disk: Annotated[
        int, Meta(ge=1, description="maximum messages of a pull of old messages")
    ] = 8
    access_message_in_memory_max_ratio: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            description="size of the log's end, in percent of memory, that counts as recent",
        ),
    ] = 40
    max_msgs_num_batch: Annotated[
        int, Meta(ge=1, description="maximum results of a query by key")
    ] = 64
    default_query_max_num: Annotated[
        int, Meta(ge=1, description="maximum results of a query by unique key")
    ] = 32
