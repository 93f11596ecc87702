"""The one way into the log: what must be delayed is diverted, and a failure says what to do."""

from collections.abc import Sequence
from functools import partial

from cometmq.broker.config import BrokerRole
from cometmq.broker.confirmations import Confirmations, Tell
from cometmq.broker.delivery.delay_levels import DELAYED, DelayLevels
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.tables.identity import Identity
from cometmq.errors import (
    BeingDeleted,
    DiskFull,
    Malformed,
    PeerError,
    Refused,
    StoreFailed,
    TooLarge,
)
from cometmq.protocol.codes import ResponseCode
from cometmq.remoting.promise import Promise
from cometmq.seams import Clock
from cometmq.store.log.new_message import NeedsNewFile, NewMessage, NewMessages
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.results import Stored, StoredMessages

_SUCCESS = ResponseCode.SUCCESS.value
_NO_SLAVE = ResponseCode.SLAVE_NOT_AVAILABLE.value
_REFUSED = (TooLarge, Malformed, DiskFull, BeingDeleted, StoreFailed)


class Intake:
    """Puts messages; whoever promised its producer a disk or a slave then asks to `confirm` it."""

    def __init__(
        self,
        store: MessageStore,
        levels: DelayLevels,
        clock: Clock,
        identity: Identity,
        stats: Statistics,
    ) -> None:
        self._store = store
        self._stats = stats
        self._levels = levels
        self._wants_slave = identity.role is BrokerRole.SYNC_MASTER
        self._confirmations = Confirmations(store, clock)
        self.must_confirm = store.promises_disk or self._wants_slave  # a put alone is not enough

    def follow_settings(self) -> None:
        """What is promised is as the store's settings have it now."""
        self.must_confirm = self._store.promises_disk or self._wants_slave
        self._confirmations.follow_settings()

    def put(self, message: NewMessage, now_ms: int, *, internal: bool = False) -> Stored:
        """In the log and in its queue; Refused, and nothing happened.

        An internal write completes acknowledged work, so it may use reserved room.
        """
        return self.put_as(message, now_ms, internal=internal)[1]

    def put_as(
        self, message: NewMessage, now_ms: int, *, internal: bool = False
    ) -> tuple[NewMessage, Stored]:
        """The same, and as what it was put: one that is delayed goes to another queue first."""
        try:
            if DELAYED in message.properties_text:
                message = self._levels.divert(message)
            return message, self._store.put(message, now_ms, internal=internal)
        except _REFUSED as error:
            self._stats.put_failed()
            raise _refusal(error) from error

    def deliver(self, message: NewMessage, now_ms: int) -> Stored:
        """Store a delayed message that is due. It keeps its delay property and is not diverted."""
        try:
            return self._store.put(message, now_ms, internal=True)
        except _REFUSED as error:
            self._stats.put_failed()
            raise _refusal(error) from error

    def put_jointly(self, messages: NewMessages, now_ms: int) -> StoredMessages | None:
        """The same as `put` of each message; None, and nothing happened, if one is unusual."""
        if DELAYED in "".join(messages.properties_texts):
            return None
        try:
            return self._store.put_all(messages, now_ms, in_this_file=True)
        except (*_REFUSED, NeedsNewFile):
            return None

    def put_batch(
        self, messages: NewMessages | Sequence[NewMessage], now_ms: int
    ) -> StoredMessages:
        """All of them or none; Refused. Messages of a batch are not delayed."""
        try:
            return self._store.put_all(messages, now_ms)
        except _REFUSED as error:
            self._stats.put_failed()
            raise _refusal(error) from error

    def confirm(self, stored: Stored, tell: Tell) -> None:
        """Tell the code for its producer: SUCCESS once it is where the settings promise."""
        if self._wants_slave:
            tell = partial(_without_slave, tell)
        if self._store.promises_disk:
            self._confirmations.add(stored, tell)
        else:
            tell(_SUCCESS, None)

    async def confirmed(self, stored: Stored) -> int:
        """The same code, to be waited for; Refused if the disk failed."""
        promise: Promise[tuple[int, str | None]] = Promise()
        self.confirm(stored, lambda code, remark: promise.keep((code, remark)))
        code, remark = await promise
        if remark is not None:
            raise Refused(code, remark)
        return code


def _without_slave(tell: Tell, code: int, remark: str | None) -> None:
    tell(_NO_SLAVE if code == _SUCCESS else code, remark)


def _refusal(error: Exception) -> Refused:
    if isinstance(error, PeerError):
        return Refused(ResponseCode.MESSAGE_ILLEGAL, str(error))
    return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {error}")
