"""Computes how the queues of a topic would be assigned to given clients."""

from cometmq.admin.messages.reading import read_queues
from cometmq.admin.session import AdminSession
from cometmq.client.consumer.shared.allocate import Averagely, clients_in_order, queues_in_order
from cometmq.errors import BadSetting


async def allocate(
    admin: AdminSession, *, topic: str, clients: str
) -> dict[str, dict[str, list[dict[str, object]]]]:
    """The queues of each client with the default assignment strategy."""
    names = clients_in_order({each.strip() for each in clients.split(",") if each.strip()})
    if not names:
        raise BadSetting("no client given: separate client addresses with commas")
    queues = queues_in_order(await read_queues(admin, topic))
    return {
        "result": {
            name: [queue.fields() for queue in Averagely().allocate(name, queues, names)]
            for name in names
        }
    }
