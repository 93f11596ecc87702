"""Filters that skip messages by the bits in the queue's extension."""

import logging

import msgspec

from cometmq.broker.config import BrokerConfig
from cometmq.broker.filtering.consumer_filters import ConsumerFilters
from cometmq.broker.filtering.filters import Filters, Wanted
from cometmq.broker.tables.clients import Clients
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.filter.bloom import BloomFilter
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers.pull import PullHeader
from cometmq.protocol.java.pretty import pretty
from cometmq.protocol.names import RETRY_PREFIX
from cometmq.seams import Clock, Disk
from cometmq.settings.live_settings import LiveSettings
from cometmq.store.config import StoreConfig
from cometmq.store.files import StoreFiles

log = logging.getLogger(__name__)

_WITH_SUBSCRIPTION = int(PullFlag.SUBSCRIPTION)


def conditions_of(
    config: BrokerConfig, stored: StoreConfig, disk: Disk, clock: Clock
) -> ConsumerFilters | None:
    """Those of a broker whose queues have extensions; empty, if they are not to be tried.

    Asked for before the store is opened: it may have to make queues again, with their bits.
    """
    is_tried = config.enable_calc_filter_bit_map
    if not stored.enable_consume_queue_ext:
        if is_tried:
            log.warning("enableCalcFilterBitMap does nothing without enableConsumeQueueExt")
        return None
    files = StoreFiles.of(stored)
    bloom = BloomFilter(
        config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter
    )
    conditions = ConsumerFilters(disk, files.root / "config/consumerFilter.json", clock, bloom)
    if is_tried:
        conditions.load(after_crash=files.abort.name in disk.names(files.root))
    return conditions


def filters_of(
    clients: Clients,
    settings: LiveSettings,
    conditions: ConsumerFilters | None,
    last_stored_ms: int,
) -> Filters:
    """The filters of a broker whose store is open."""
    if conditions is None or not settings.now(BrokerConfig).enable_calc_filter_bit_map:
        return Filters(clients, settings)
    conditions.newest_ms = max(conditions.newest_ms, last_stored_ms)
    return BitFilters(clients, settings, conditions)


class BitFilters(Filters):
    """Match the same messages with fewer reads of records."""

    def __init__(
        self, clients: Clients, settings: LiveSettings, conditions: ConsumerFilters
    ) -> None:
        super().__init__(clients, settings)
        self._conditions = conditions

    def condition_text(self, group: str, topic: str) -> str | None:
        """The condition in the format of the file."""
        entry = self._conditions.entry(topic, group)
        return None if entry is None else pretty(entry).decode()

    def of_pull(self, ask: PullHeader, group: GroupConfig) -> Wanted:
        """A pull that brings a condition of its own goes by records: nobody tried that before."""
        wanted = super().of_pull(ask, group)
        is_own = ask.sys_flag & _WITH_SUBSCRIPTION or ask.topic.startswith(RETRY_PREFIX)
        if wanted.record is None or is_own:
            return wanted
        subscription = self._said(ask, group)
        followed = self._conditions.followed(
            ask.consumer_group, subscription, self._condition(subscription.sub_string)
        )
        if followed is None:
            return wanted
        return msgspec.structs.replace(wanted, tag=followed.may_want)
