"""Messages that the broker itself moves: delayed, retried, and those of transactions."""

from dataclasses import dataclass

from cometmq.broker.delivery.delay_levels import DelayLevels
from cometmq.broker.delivery.retry import Retries
from cometmq.broker.delivery.schedule import Schedule
from cometmq.broker.delivery.transactions import Transactions


@dataclass(frozen=True, slots=True)
class Delivery:
    """The services that move them."""

    levels: DelayLevels
    retries: Retries
    schedule: Schedule
    transactions: Transactions

    def load(self) -> None:
        """Read how far delayed messages and transactions were processed."""
        self.schedule.load()
        self.transactions.load()
