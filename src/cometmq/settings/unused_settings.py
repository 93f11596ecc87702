"""Settings of RocketMQ 4.9 that have no effect here: read from files, stored and shown.

They are accepted so that one settings file works with Apache's servers and with these, and so that
tools can list them. They configure thread pools, native selectors, direct memory, replicas and
filter servers, which do not exist here.

A request may change the fields of the *Ignored* structs. It must not change the fields of the
*Fixed* structs: in Apache's servers these decide where files are, which code runs and which peers
are trusted, and the same file may start Apache's server next.
"""

import os
from typing import Annotated, ClassVar

from msgspec import Meta, field

from cometmq.protocol.java.spelling import camel
from cometmq.settings.settings import Settings

_NAMES = {"check_crc_on_recover": "checkCRCOnRecover"}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cores_to_4() -> int:
    return min(_cores(), 4)


def _cores_to_32() -> int:
    return min(_cores(), 32)


def _eight_and_cores() -> int:
    return 8 + _cores()


def _eight_and_twice_cores() -> int:
    return max(8 + 2 * _cores(), 4 * _cores_to_4())


def _sixteen_and_twice_cores() -> int:
    return 16 + 2 * _cores()


def _home() -> str | None:
    return os.environ.get("ROCKETMQ_HOME")


class IgnoredServerConfig(Settings, kw_only=True):
    """Settings of both servers that a request may change."""

    has_effect: ClassVar[bool] = False

    server_worker_threads: int = 8
    server_callback_executor_threads: int = 0
    server_selector_threads: int = 3
    server_socket_snd_buf_size: int = 0
    server_socket_rcv_buf_size: int = 0
    write_buffer_high_water_mark: int = 0
    write_buffer_low_water_mark: int = 0
    server_pooled_byte_buf_allocator_enable: bool = True
    use_epoll_native_selector: bool = False


class FixedServerConfig(Settings, kw_only=True):
    """Settings of both servers that a request must not change."""

    has_effect: ClassVar[bool] = False

    rocketmq_home: str | None = field(default_factory=_home)


class IgnoredBrokerConfig(IgnoredServerConfig, kw_only=True, rename=camel(**_NAMES)):
    """Settings of a broker and its store that a request may change."""

    # Connections to name servers
    client_worker_threads: int = 4
    client_callback_executor_threads: int = field(default_factory=_cores)
    client_oneway_semaphore_value: int = 65535
    client_async_semaphore_value: int = 65535
    connect_timeout_millis: int = 3_000
    channel_not_active_interval: int = 60_000
    client_channel_max_idle_time_seconds: int = 120
    client_socket_snd_buf_size: int = 0
    client_socket_rcv_buf_size: int = 0
    client_pooled_byte_buf_allocator_enable: bool = False
    client_close_socket_if_timeout: bool = True

    # Thread pools
    send_message_thread_pool_nums: int = field(default_factory=_cores_to_4)
    put_message_future_thread_pool_nums: int = field(default_factory=_cores_to_4)
    pull_message_thread_pool_nums: int = field(default_factory=_sixteen_and_twice_cores)
    process_reply_message_thread_pool_nums: int = field(default_factory=_sixteen_and_twice_cores)
    query_message_thread_pool_nums: int = field(default_factory=_eight_and_cores)
    admin_broker_thread_pool_nums: int = 16
    client_manage_thread_pool_nums: int = 32
    consumer_manage_thread_pool_nums: int = 32
    heartbeat_thread_pool_nums: int = field(default_factory=_cores_to_32)
    end_transaction_thread_pool_nums: int = field(default_factory=_eight_and_twice_cores)
    put_thread_pool_queue_capacity: int = 10_000
    wait_time_mills_in_pull_queue: int = 5_000
    wait_time_mills_in_heartbeat_queue: int = 31_000
    wait_time_mills_in_transaction_queue: int = 3_000

    # The broker
    flush_consumer_offset_history_interval: int = 60_000
    high_speed_mode: bool = False
    commercial_enable: bool = True
    commercial_timer_count: int = 1
    commercial_trans_count: int = 1
    commercial_big_count: int = 1
    commercial_base_count: int = 1
    transfer_msg_by_heap: bool = True
    max_delay_time: int = 40
    disable_consume_if_consumer_read_slowly: bool = False
    consumer_fallbehind_threshold: int = 16 << 30
    enable_detail_stat: bool = True
    auto_delete_unused_stats: bool = False
    isolate_log_enable: bool = False

    # The store
    commit_interval_commit_log: int = 200
    use_reentrant_lock_when_put_message: bool = True
    flush_commit_log_timed: bool = True
    delete_commit_log_files_interval: int = 100
    delete_consume_queue_files_interval: int = 100
    destroy_maped_file_interval_forcibly: int = 120_000
    redelete_hanged_file_interval: int = 120_000
    put_msg_index_hight_water: int = 600_000
    check_crc_on_recover: bool = True
    commit_commit_log_least_pages: int = 4
    flush_consume_queue_least_pages: int = 2
    commit_commit_log_thorough_interval: int = 200
    flush_consume_queue_thorough_interval: int = 60_000
    message_index_safe: bool = False
    slave_timeout: int = 3_000
    offset_check_in_slave: bool = False
    debug_lock_enable: bool = False
    duplication_enable: bool = False
    disk_fall_recorded: bool = True
    transient_store_pool_enable: bool = False
    transient_store_pool_size: int = 5
    fast_fail_if_no_buffer_in_store_pool: bool = False
    is_enable_batch_push: bool = False
    enable_lmq: bool = False
    enable_multi_dispatch: bool = False
    max_lmq_consume_queue_num: int = 20_000
    enable_schedule_async_deliver: bool = False
    schedule_async_deliver_max_pending_limit: int = 2_000
    schedule_async_deliver_max_resend_num2_blocked: int = 3


class FixedBrokerConfig(FixedServerConfig, kw_only=True, rename=camel()):
    """Settings of a broker and its store that a request must not change."""

    message_store_plug_in: str = ""
    filter_server_nums: Annotated[int, Meta(ge=0, le=0)] = 0
    fetch_namesrv_addr_by_address_server: bool = False
    store_path_d_ledger_commit_log: str | None = None
    read_only_commit_log_store_paths: str | None = None
    ha_listen_port: int = 10912
    ha_send_heartbeat_interval: int = 5_000
    ha_housekeeping_interval: int = 20_000
    ha_transfer_batch_size: int = 32 << 10
    ha_master_address: str | None = None
    ha_slave_fallbehind_max: int = 256 << 20
    enable_d_leger_commit_log: bool = False
    d_leger_group: str | None = None
    d_leger_peers: str | None = None
    d_leger_self_id: str | None = None
    preferred_leader_id: str | None = None
    bit_map_length_consume_queue_ext: int = 112
