"""TransactionMQProducer: Java's producer of transactions."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from cometmq.blocking.producer import ProducerFace
from cometmq.blocking.transaction import TransactionProducer
from cometmq.client import message as ours
from cometmq.client.config import ClientConfig, ProducerConfig
from cometmq.client.send.transaction import TransactionResult, TransactionState
from cometmq.compat.messages import Message, MessageExt, SendResult
from cometmq.compat.producer import DefaultMQProducer
from cometmq.errors import BadSetting
from cometmq.protocol.records.properties import DELAY

log = logging.getLogger(__name__)


class LocalTransactionState:
    """The state of a local transaction, with Java's names."""

    COMMIT_MESSAGE = TransactionState.COMMIT
    ROLLBACK_MESSAGE = TransactionState.ROLLBACK
    UNKNOW = TransactionState.UNKNOWN


class TransactionListener(ABC):
    """Runs local transactions and finds their states."""

    @abstractmethod
    def executeLocalTransaction(self, message: Message, arg: Any) -> TransactionState:
        """Run the local transaction and return its state."""

    @abstractmethod
    def checkLocalTransaction(self, message: MessageExt) -> TransactionState:
        """Return the state of a transaction that the broker asks for."""


class TransactionSendResult(SendResult):
    """The result of a message in a transaction."""

    def __init__(self, ended: TransactionResult) -> None:
        super().__init__(ended.sent)
        self._state = ended.state

    def getLocalTransactionState(self) -> TransactionState:
        """Return the state of the local transaction."""
        return self._state

    def getTransactionId(self) -> str:
        """Return the broker's transaction id, or else the unique key, which checks refer to."""
        return self.wrapped.transaction_id or self.wrapped.message_id


class TransactionMQProducer(DefaultMQProducer):
    """A DefaultMQProducer that also sends messages in transactions."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._listener: TransactionListener | None = None

    def setTransactionListener(self, listener: TransactionListener) -> None:
        """Set the listener; call it before `start`."""
        for name in ("executeLocalTransaction", "checkLocalTransaction"):
            if not callable(getattr(listener, name, None)):
                raise BadSetting(f"{listener!r} is not a TransactionListener: it has no {name}")
        self._listener = listener

    def setExecutorService(self, executor: object) -> None:
        """Accepted and ignored: transactions run on threads of the client."""

    def sendMessageInTransaction(self, message: Message, arg: Any) -> TransactionSendResult:
        """Send a message, run the local transaction and report its state to the broker.

        If the listener raises or returns None, the state is UNKNOW and the broker asks later.
        """
        listener = self._heard()
        message.properties.pop(DELAY, None)  # a half message cannot be delayed: Java drops it too

        def local(_: ours.Message, sent: ours.SendResult) -> TransactionState:
            message.transaction_id = sent.message_id
            return _state_of(lambda: listener.executeLocalTransaction(message, arg))

        face = self._running
        assert isinstance(face, TransactionProducer), "made below"
        return TransactionSendResult(
            face.send_in_transaction(message.as_sent(), local, with_sent=True)
        )

    def _made(self, client: ClientConfig, config: ProducerConfig) -> ProducerFace[Any]:
        listener = self._heard()

        def check(message: ours.ReceivedMessage) -> TransactionState:
            return _state_of(lambda: listener.checkLocalTransaction(MessageExt(message)))

        return TransactionProducer(config, check=check, client=client)

    def _heard(self) -> TransactionListener:
        if self._listener is None:
            raise BadSetting("a transaction producer needs setTransactionListener")
        return self._listener


def _state_of(work: Callable[[], TransactionState]) -> TransactionState:
    """The state that a listener returns; None is UNKNOW, as in Java."""
    try:
        state = work()
    except Exception:
        log.exception("a transaction listener failed; the broker will ask for the state")
        return TransactionState.UNKNOWN
    if isinstance(state, TransactionState):
        return state
    log.error("a transaction listener returned %r, which counts as UNKNOW", state)
    return TransactionState.UNKNOWN
