"""Requests that end a transaction or resume a discarded one."""

from dataclasses import dataclass

from cometmq.broker.delivery.transactions import Transactions
from cometmq.broker.durable_replies import SafeAnswers
from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers.transaction import EndTransactionHeader, ResumeCheckHeader
from cometmq.remoting.dispatch import Call, Outcome


@dataclass(frozen=True, slots=True)
class TransactionHandlers:
    """Answers once the stored messages are as durable as the settings promise."""

    transactions: Transactions
    answers: SafeAnswers

    def end(self, call: Call, ask: EndTransactionHeader) -> Outcome:
        """END_TRANSACTION: right after the send, or as the answer to CHECK_TRANSACTION_STATE."""
        return self.answers.to(self.transactions.end(ask, call.received_ms))

    def resume(self, call: Call, ask: ResumeCheckHeader) -> Outcome:
        if ask.msg_id is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "msgId is missing")
        return self.answers.to(self.transactions.resume(ask.msg_id, call.received_ms))
