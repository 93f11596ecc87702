"""The blocking transaction producer."""

from collections.abc import Iterable

from cometmq.blocking.face import waits
from cometmq.blocking.producer import ProducerFace
from cometmq.blocking.session import SharedSession, core_of
from cometmq.client.config import ClientConfig, ProducerConfig
from cometmq.client.send import transaction as awaited


class TransactionProducer(ProducerFace[awaited.TransactionProducer]):
    """`cometmq.TransactionProducer` for code that does not await.

    Plain functions `local` and `check` run on threads of the producer.
    """

    def __init__(
        self,
        group: str | ProducerConfig,
        name_servers: str | Iterable[str] | None = None,
        *,
        check: awaited.Check,
        client: ClientConfig | None = None,
        session: SharedSession | None = None,
    ) -> None:
        super().__init__(
            awaited.TransactionProducer(
                group, name_servers, check=check, client=client, session=core_of(session)
            )
        )

    send_in_transaction = waits(awaited.TransactionProducer.send_in_transaction)
