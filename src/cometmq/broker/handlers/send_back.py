"""CONSUMER_SEND_MSG_BACK: a consumer gives a message back, to get it again later."""

from dataclasses import dataclass

from cometmq.broker.delivery.retry import Retries
from cometmq.broker.durable_replies import SafeAnswers
from cometmq.broker.handlers.checks import Checks
from cometmq.broker.intake import Intake
from cometmq.broker.statistics.stats import Statistics
from cometmq.protocol.headers.send import SendBackHeader
from cometmq.remoting.dispatch import Call, Outcome, Reply


@dataclass(frozen=True, slots=True)
class SendBackHandlers:
    """Messages that consumers could not consume."""

    checks: Checks
    retries: Retries
    intake: Intake
    answers: SafeAnswers
    stats: Statistics

    def send_back(self, call: Call, ask: SendBackHeader) -> Outcome:
        self.checks.refuse_if_closed()
        returned = self.retries.sent_back(call.link, ask)
        if returned is None:
            return Reply()
        put, stored = self.intake.put_as(returned.copy, call.received_ms)
        self.retries.topics.keep(returned.topic)
        if self.checks.groups.get(ask.group) is None:
            self.checks.groups.keep(self.checks.groups.known(ask.group))
        self.stats.put(put.topic, put.queue_id, 1, stored.size)
        self.stats.sent_back(ask.group, returned.origin_topic)
        return self.answers.to(stored)
