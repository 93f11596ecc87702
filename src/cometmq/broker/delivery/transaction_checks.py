"""The question to producers what became of their transactions.

Nothing runs while nothing is pending: one coroutine sleeps until the first half message is old
enough, or waits for one. Of those that come, only the oldest undecided is looked at: by the time
it is due most of the others are decided, and cost nothing here.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from cometmq.background import Background
from cometmq.broker.arrivals import Arrivals
from cometmq.broker.config import BrokerConfig
from cometmq.broker.delivery.copies import real_queue
from cometmq.broker.delivery.transactions import Transactions, outside_of
from cometmq.broker.tables.clients import Clients
from cometmq.broker.tables.identity import Identity
from cometmq.errors import PeerError, Refused, WorldError
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.transaction import CheckTransactionHeader
from cometmq.protocol.names import HALF_TOPIC
from cometmq.protocol.records.message import StoredMessage, pack_record
from cometmq.protocol.records.message_id import OffsetId
from cometmq.protocol.records.properties import (
    CHECK_IMMUNITY_SECONDS,
    PRODUCER_GROUP,
    TRANSACTION_CHECK_TIMES,
    UNIQ_KEY,
    number_in,
    take_property,
)
from cometmq.seams import Clock
from cometmq.settings.live_settings import LiveSettings
from cometmq.store.config import StoreConfig
from cometmq.store.log.new_message import NewMessage
from cometmq.store.queue.results import Stored

log = logging.getLogger(__name__)

T = TypeVar("T")

_TURN = 32  # half messages, before others on the loop have their turn
_RETRY_MS = 10_000  # after one that failed, or for which there was no room
_PATIENCE_MS = 24 * 3600 * 1000
_ASK_MS_MAX = 1_000
_ASKED_MAX = 3  # producers, until one can be reached
_UNREACHED_MAX = 1_000
_HOUR_MS = 3_600_000
# Then it is put again, so that the beginning of the queue can be left behind.
_HELD_MS_MAX = 60_000


class _Kind(Enum):
    """Why a half message is left alone for a while, and so for how long."""

    NEW = "its producer is busy with it"
    IMMUNE = "its producer said how long it may take"
    ASKED = "its producer was asked"


class TransactionChecks:
    """Asks. `start` it when the transactions are loaded."""

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
        self._clients = clients
        self._arrivals = arrivals
        self._clock = clock
        self._settings = settings
        self._background = background
        self._identity = identity
        self._due: list[tuple[int, int]] = []  # a heap: monotonic ms, half message
        self._oldest: int | None = None  # of the new ones; those after it wait for it
        self._seen = 0  # half messages before it are in the heap, or closed
        self._turn = 0  # of the producers
        self._unreached: set[str] = set()  # groups of which nobody could be asked last time

    def start(self) -> None:
        """Ask, from now on."""
        self._seen = self._transactions.ledger.progress
        self._background.start(self._run(), "transaction checks")

    async def _run(self) -> None:
        while True:
            try:
                self._look()
                await self._ask_all(self._take_due())
                await self._until_due()
            except Exception:  # whatever it is, other transactions are to be asked about
                log.exception("transaction checks wait")
                await self._clock.sleep_ms(_RETRY_MS)

    # When

    def _look(self) -> None:
        """At those that came, up to one for which all that came after it can wait."""
        ledger, end = self._transactions.ledger, self._transactions.half_end
        looked = 0
        while self._oldest is None and self._seen < end and looked < _TURN:
            offset = self._seen
            self._seen += 1
            if not ledger.is_open(offset):
                continue
            looked += 1
            self._tried(self._see, offset)

    def _see(self, offset: int) -> None:
        half = self._transactions.half(offset)
        if half is None:
            self._transactions.give_up(offset)
            return
        kind, left_ms = _kind(half), self._left_ms(half)
        self._push(offset, min(left_ms, _HELD_MS_MAX) if kind is _Kind.IMMUNE else left_ms)
        if kind is _Kind.NEW:
            self._oldest = offset

    def _alone(self, half: StoredMessage) -> tuple[int, int]:
        """From when by the wall clock it is left alone, and for how many ms."""
        config = self._settings.now(BrokerConfig)
        match _kind(half):
            case _Kind.ASKED:
                return half.stored_ms, config.transaction_check_interval
            case _Kind.IMMUNE:
                seconds = number_in(half.properties_text, CHECK_IMMUNITY_SECONDS) or 0
                return half.born_ms, 1000 * seconds
            case _Kind.NEW:
                return half.stored_ms, config.transaction_time_out

    def _left_ms(self, half: StoredMessage) -> int:
        """How long it is left alone from now on; never longer than if it had just come."""
        start_ms, patience_ms = self._alone(half)
        return min(max(start_ms + patience_ms - self._clock.wall_ms(), 0), patience_ms)

    def _is_a_part_early(self, half: StoredMessage, now_ms: int) -> bool:
        """Due by the monotonic clock, and not yet by the wall clock.

        They count their milliseconds from different moments, so the one may show the end of a
        wait when the other shows the millisecond before.
        """
        return sum(self._alone(half)) - now_ms == 1

    def _tried(self, work: Callable[[int], T], offset: int) -> T | None:
        """If it fails, this half message has to wait, and no other has."""
        try:
            return work(offset)
        except Exception as error:
            is_ours = not isinstance(error, (Refused, OSError))
            log.error("half message %d waits: %s", offset, error, exc_info=is_ours)
            self._push(offset, _RETRY_MS)
            return None

    def _push(self, offset: int, wait_ms: int) -> None:
        heapq.heappush(self._due, (self._clock.monotonic_ms() + wait_ms, offset))

    async def _until_due(self) -> None:
        wait_ms = self._due[0][0] - self._clock.monotonic_ms() if self._due else _PATIENCE_MS
        if wait_ms <= 0 or (self._oldest is None and self._seen < self._transactions.half_end):
            await asyncio.sleep(0)
        elif self._oldest is None:
            await self._arrivals.wait_past(HALF_TOPIC, 0, self._seen, None, wait_ms)
        else:
            await self._clock.sleep_ms(wait_ms)

    # What

    def _take_due(self) -> list[tuple[NewMessage, Stored]]:
        """What is to be asked about now; the others that are due are put again, or away."""
        now_ms = self._clock.monotonic_ms()
        asked = []
        for _ in range(_TURN):
            if not self._due or self._due[0][0] > now_ms:
                break
            _, offset = heapq.heappop(self._due)
            if offset == self._oldest:
                self._oldest = None
            if not self._transactions.ledger.is_open(offset):
                continue
            again = self._tried(self._decide, offset)
            if again is not None:
                asked.append(again)
        return asked

    def _decide(self, offset: int) -> tuple[NewMessage, Stored] | None:
        """What to do with one that is due: the half message as it is to be asked about, if so."""
        transactions, now_ms = self._transactions, self._clock.wall_ms()
        half = transactions.half(offset)
        if half is None:
            transactions.give_up(offset)
            return None
        if self._is_a_part_early(half, now_ms):
            self._push(offset, 1)
            return None
        times = number_in(half.properties_text, TRANSACTION_CHECK_TIMES) or 0
        reserved_ms = self._settings.now(StoreConfig).file_reserved_time * _HOUR_MS
        is_too_old = now_ms - half.born_ms > reserved_ms
        if is_too_old or times >= self._settings.now(BrokerConfig).transaction_check_max:
            transactions.put_away(offset, half, now_ms)
            return None
        if _kind(half) is _Kind.IMMUNE and self._left_ms(half) > 0:
            transactions.put_again(offset, half, now_ms, check_times=None)
            return None
        try:
            return transactions.put_again(offset, half, now_ms, check_times=times + 1)
        except Refused as error:
            if error.code != ResponseCode.MESSAGE_ILLEGAL:
                raise
            transactions.put_away(offset, half, now_ms)  # there is no room in it for the count
            return None

    # Whom

    async def _ask_all(self, halves: list[tuple[NewMessage, Stored]]) -> None:
        if halves:
            await asyncio.gather(*(self._ask(half, stored) for half, stored in halves))

    async def _ask(self, half: NewMessage, stored: Stored) -> None:
        """One producer of the group; who has gone or does not read is passed over."""
        _, group = take_property(half.properties_text, PRODUCER_GROUP)
        links = self._clients.producer_links(group or "")
        header, body = self._question(half, stored)
        self._turn += 1
        for number in range(min(len(links), _ASKED_MAX)):
            link = links[(self._turn + number) % len(links)]
            try:
                await link.send_oneway(
                    RequestCode.CHECK_TRANSACTION_STATE, header, body, timeout_ms=_ASK_MS_MAX
                )
            except (PeerError, WorldError) as error:
                log.debug("producer at %s is not asked: %s", link.peer, error)
            else:
                self._unreached.discard(group or "")
                return
        self._tell_unreached(group or "")

    def _tell_unreached(self, group: str) -> None:
        """Once, until it is reached again: a group may have many half messages."""
        if group not in self._unreached:
            if len(self._unreached) >= _UNREACHED_MAX:
                self._unreached.clear()
            self._unreached.add(group)
            log.warning("no producer of group %r can be asked about its transactions", group)

    def _question(self, half: NewMessage, stored: Stored) -> tuple[CheckTransactionHeader, bytes]:
        """The half message as its producer knows it: where it is to go, and not where it is."""
        topic, queue_id = real_queue(half.properties_text) or (half.topic, half.queue_id)
        _, key = take_property(half.properties_text, UNIQ_KEY)
        record = StoredMessage(
            topic=topic,
            queue_id=queue_id,
            queue_offset=stored.queue_offset,
            physical_offset=stored.physical_offset,
            flag=half.flag,
            sys_flag=half.sys_flag,
            born_ms=half.born_ms,
            born_host=half.born_host,
            stored_ms=self._clock.wall_ms(),
            store_host=self._identity.host,
            reconsume_times=half.reconsume_times,
            body=half.body,
            properties_text=outside_of(half.properties_text),
        )
        header = CheckTransactionHeader(
            tran_state_table_offset=stored.queue_offset,
            commit_log_offset=stored.physical_offset,
            msg_id=key,
            transaction_id=key,
            offset_msg_id=str(OffsetId(self._identity.host, stored.physical_offset)),
        )
        return header, pack_record(record)


def _kind(half: StoredMessage) -> _Kind:
    text = half.properties_text
    if number_in(text, TRANSACTION_CHECK_TIMES):
        return _Kind.ASKED
    return _Kind.NEW if number_in(text, CHECK_IMMUNITY_SECONDS) is None else _Kind.IMMUNE
