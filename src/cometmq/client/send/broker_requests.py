"""A producer as its session sees it: brokers check transactions and push replies."""

from typing import Protocol

from cometmq.client.send.request_reply import PendingReplies
from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers.send import PushReplyHeader
from cometmq.protocol.headers.transaction import CheckTransactionHeader
from cometmq.protocol.records.message import StoredMessage
from cometmq.remoting.dispatch import Link


class CheckAnswers(Protocol):
    """Answers brokers that ask for the state of a transaction."""

    def check(self, link: Link, ask: CheckTransactionHeader, half: StoredMessage) -> None:
        """Start a check; its answer is a request on the link."""


class SessionProducer:
    """Receives the requests of brokers to the producer of one group."""

    def __init__(self, group: str, replies: PendingReplies) -> None:
        self.group = group
        self.transactions: CheckAnswers | None = None
        self._replies = replies

    def check_transaction(
        self, link: Link, ask: CheckTransactionHeader, half: StoredMessage
    ) -> None:
        """Start the check of a transaction. Raises Refused if the producer sends none."""
        if self.transactions is None:
            text = f"the producer of group {self.group} sends no transactions"
            raise Refused(ResponseCode.SYSTEM_ERROR, text)
        self.transactions.check(link, ask, half)

    def take_reply(self, ask: PushReplyHeader, body: bytes) -> bool:
        """Accept a reply; return whether it belongs to a pending request."""
        return self._replies.take(ask, body)
