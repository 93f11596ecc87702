"""Transaction checks: ask producers to decide about half messages that stay open.

Nothing runs while no half message is open. One coroutine sleeps until the first half message is
due, or waits for one to arrive. Only the oldest new half message is read: until it is due, most of
the later ones are decided, and cost nothing here.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypeVar

from cometmq.background import Background
from cometmq.broker.arrivals import Arrivals
from cometmq.broker.config import BrokerConfig
from cometmq.broker.delivery.half_message import HalfMessage
from cometmq.broker.delivery.transactions import Transactions
from cometmq.broker.tables.clients import Clients
from cometmq.broker.tables.identity import Identity
from cometmq.errors import PeerError, Refused, WorldError
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.transaction import CheckTransactionHeader
from cometmq.protocol.names import HALF_TOPIC
from cometmq.protocol.records.message import StoredMessage, pack_record
from cometmq.protocol.records.message_id import OffsetId
from cometmq.seams import Clock
from cometmq.settings.live_settings import LiveSettings
from cometmq.store.config import StoreConfig
from cometmq.store.log.new_message import NewMessage
from cometmq.store.queue.results import Stored

log = logging.getLogger(__name__)

T = TypeVar("T")

_TURN = 32  # half messages per turn of the loop
_RETRY_MS = 10_000  # after a half message that failed, or that the store refused
_PATIENCE_MS = 24 * 3600 * 1000
_SEND_MS_MAX = 1_000
_PRODUCERS_TRIED_MAX = 3
_UNREACHED_MAX = 1_000  # groups
_HOUR_MS = 3_600_000
# An immune half message is then stored again, so that the beginning of its queue can be cleaned.
_HELD_MS_MAX = 60_000


class _Kind(Enum):
    """Why the producer of a half message is not asked for a while; the reason sets the time."""

    NEW = "its producer is still working on it"
    IMMUNE = "its producer set an immunity time"
    ASKED = "its producer was asked"


class _Check(NamedTuple):
    """A half message that producers are asked about, and its new copy in the queue."""

    half: HalfMessage
    copy: NewMessage
    stored: Stored


class TransactionChecks:
    """Schedules and sends checks. `start` it when the transactions are loaded."""

    def __init__(
        self,
        transactions: Transactions,
        clients: Clients,
        arrivals: Arrivals,
        clock: Clock,
        settings: LiveSettings,
        background: Background,
        identity: Identity,
    ) -> None:
        self._transactions = transactions
        self._halves = transactions.halves
        self._clients = clients
        self._arrivals = arrivals
        self._clock = clock
        self._settings = settings
        self._background = background
        self._identity = identity
        self._due: list[tuple[int, int]] = []  # a heap of monotonic ms and half offset
        self._oldest_new: int | None = None  # later new half messages are not read yet
        self._scheduled_to = 0  # half messages before this offset are in the heap, or closed
        self._turn = 0  # of the producers
        self._unreached: set[str] = set()  # groups without a reachable producer at the last check

    def start(self) -> None:
        self._scheduled_to = self._halves.ledger.progress
        self._background.start(self._check_forever(), "transaction checks")

    async def _check_forever(self) -> None:
        while True:
            try:
                self._schedule_new_halves()
                await self._send_checks(self._process_due_halves())
                await self._wait_until_due()
            except Exception:  # whatever it is, other transactions must still be checked
                log.exception("transaction checks wait")
                await self._clock.sleep_ms(_RETRY_MS)

    # Scheduling

    def _schedule_new_halves(self) -> None:
        """Schedule half messages up to the first new one; all later ones are due after it."""
        ledger, end = self._halves.ledger, self._halves.end
        assert self._scheduled_to <= end, "half messages are never cut off"
        count = 0
        while self._oldest_new is None and self._scheduled_to < end and count < _TURN:
            offset = self._scheduled_to
            self._scheduled_to += 1
            if not ledger.is_open(offset):
                continue
            count += 1
            self._retry_if_it_fails(self._schedule_half, offset)

    def _schedule_half(self, offset: int) -> None:
        half = self._halves.read(offset)
        if half is None:
            self._transactions.close_unreadable(offset)
            return
        kind, left_ms = _kind(half), self._quiet_ms_left(half)
        self._push_due(offset, min(left_ms, _HELD_MS_MAX) if kind is _Kind.IMMUNE else left_ms)
        if kind is _Kind.NEW:
            self._oldest_new = offset

    def _quiet_period(self, half: HalfMessage) -> tuple[int, int]:
        """When the time in which its producer is not asked began, and how long it is, in ms."""
        config, message = self._settings.now(BrokerConfig), half.message
        match _kind(half):
            case _Kind.ASKED:
                return message.stored_ms, config.transaction_check_interval
            case _Kind.IMMUNE:
                return message.born_ms, 1000 * (half.immunity_seconds or 0)
            case _Kind.NEW:
                return message.stored_ms, config.transaction_time_out

    def _quiet_ms_left(self, half: HalfMessage) -> int:
        """The rest of the quiet period, never longer than the whole: the clock may be set back."""
        start_ms, quiet_ms = self._quiet_period(half)
        return min(max(start_ms + quiet_ms - self._clock.wall_ms(), 0), quiet_ms)

    def _is_a_millisecond_early(self, half: HalfMessage, now_ms: int) -> bool:
        """Due by the monotonic clock, and one millisecond early by the wall clock.

        The two clocks count their milliseconds from different moments.
        """
        return sum(self._quiet_period(half)) - now_ms == 1

    def _retry_if_it_fails(self, work: Callable[[int], T], offset: int) -> T | None:
        """A failure delays this half message and no other."""
        try:
            return work(offset)
        except Exception as error:
            is_bug = not isinstance(error, (Refused, OSError))
            log.error("half message %d waits: %s", offset, error, exc_info=is_bug)
            self._push_due(offset, _RETRY_MS)
            return None

    def _push_due(self, offset: int, wait_ms: int) -> None:
        assert wait_ms >= 0, "a due time is not in the past"
        heapq.heappush(self._due, (self._clock.monotonic_ms() + wait_ms, offset))

    async def _wait_until_due(self) -> None:
        wait_ms = self._due[0][0] - self._clock.monotonic_ms() if self._due else _PATIENCE_MS
        has_new = self._oldest_new is None and self._scheduled_to < self._halves.end
        if wait_ms <= 0 or has_new:
            await asyncio.sleep(0)
        elif self._oldest_new is None:
            await self._arrivals.wait_past(HALF_TOPIC, 0, self._scheduled_to, None, wait_ms)
        else:
            await self._clock.sleep_ms(wait_ms)

    # Due half messages

    def _process_due_halves(self) -> list[_Check]:
        """Requeue or discard half messages that are due; returns the checks to send."""
        now_ms = self._clock.monotonic_ms()
        checks = []
        for _ in range(_TURN):
            if not self._due or self._due[0][0] > now_ms:
                break
            _, offset = heapq.heappop(self._due)
            if offset == self._oldest_new:
                self._oldest_new = None
            if not self._halves.ledger.is_open(offset):
                continue
            check = self._retry_if_it_fails(self._process_due_half, offset)
            if check is not None:
                checks.append(check)
        return checks

    def _process_due_half(self, offset: int) -> _Check | None:
        transactions, now_ms = self._transactions, self._clock.wall_ms()
        half = self._halves.read(offset)
        if half is None:
            transactions.close_unreadable(offset)
            return None
        if self._is_a_millisecond_early(half, now_ms):
            self._push_due(offset, 1)
            return None
        reserved_ms = self._settings.now(StoreConfig).file_reserved_time * _HOUR_MS
        is_too_old = now_ms - half.message.born_ms > reserved_ms
        times_max = self._settings.now(BrokerConfig).transaction_check_max
        if is_too_old or half.check_times >= times_max:
            transactions.discard(half, now_ms)
            return None
        if _kind(half) is _Kind.IMMUNE and self._quiet_ms_left(half) > 0:
            transactions.requeue(half, now_ms, check_times=None)
            return None
        try:
            copy, stored = transactions.requeue(half, now_ms, check_times=half.check_times + 1)
        except Refused as error:
            if error.code != ResponseCode.MESSAGE_ILLEGAL:
                raise
            transactions.discard(half, now_ms)  # its properties have no room for the count
            return None
        return _Check(half, copy, stored)

    # Sending

    async def _send_checks(self, checks: list[_Check]) -> None:
        if checks:
            await asyncio.gather(*(self._send_check(check) for check in checks))

    async def _send_check(self, check: _Check) -> None:
        """Ask one producer of the group; the next one if it is gone or does not read."""
        group = check.half.producer_group or ""
        links = self._clients.producer_links(group)
        header, body = self._check_request(check)
        self._turn += 1
        for number in range(min(len(links), _PRODUCERS_TRIED_MAX)):
            link = links[(self._turn + number) % len(links)]
            try:
                await link.send_oneway(
                    RequestCode.CHECK_TRANSACTION_STATE, header, body, timeout_ms=_SEND_MS_MAX
                )
            except (PeerError, WorldError) as error:
                log.debug("cannot send a transaction check to %s: %s", link.peer, error)
            else:
                self._unreached.discard(group)
                return
        self._log_unreached(group)

    def _log_unreached(self, group: str) -> None:
        """Log it once, until the group is reached: it may have many half messages."""
        if group not in self._unreached:
            if len(self._unreached) >= _UNREACHED_MAX:
                self._unreached.clear()
            self._unreached.add(group)
            log.warning("no producer of group %r can be asked about its transactions", group)

    def _check_request(self, check: _Check) -> tuple[CheckTransactionHeader, bytes]:
        """Header and body. The record names the destination, as its producer knows it."""
        half, copy, stored = check
        topic, queue_id = half.destination or (copy.topic, copy.queue_id)
        record = StoredMessage(
            topic=topic,
            queue_id=queue_id,
            queue_offset=stored.queue_offset,
            physical_offset=stored.physical_offset,
            flag=copy.flag,
            sys_flag=copy.sys_flag,
            born_ms=copy.born_ms,
            born_host=copy.born_host,
            stored_ms=self._clock.wall_ms(),
            store_host=self._identity.host,
            reconsume_times=copy.reconsume_times,
            body=copy.body,
            properties_text=half.text_for_clients(copy.properties_text),
        )
        header = CheckTransactionHeader(
            tran_state_table_offset=stored.queue_offset,
            commit_log_offset=stored.physical_offset,
            msg_id=half.unique_key,
            transaction_id=half.unique_key,
            offset_msg_id=str(OffsetId(self._identity.host, stored.physical_offset)),
        )
        return header, pack_record(record)


def _kind(half: HalfMessage) -> _Kind:
    if half.check_times:
        return _Kind.ASKED
    return _Kind.NEW if half.immunity_seconds is None else _Kind.IMMUNE
