"""The transaction producer for code that does not await."""

from collections.abc import Iterable

from cometmq.blocking.face import waits
from cometmq.blocking.producer import ProducerFace
from cometmq.blocking.session import SharedSession, core_of
from cometmq.client.config import ClientConfig, ProducerConfig
from cometmq.client.send import transaction as awaited


class TransactionProducer(ProducerFace[awaited.TransactionProducer]):
    """`cometmq.TransactionProducer`, waited for: `local` and `check` run on threads of theirs."""

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
