"""Which queues the members of a group would get."""

from cometmq.admin.messages.reading import read_queues
from cometmq.admin.session import AdminSession
from cometmq.client.consumer.shared.allocate import Averagely, clients_in_order, queues_in_order
from cometmq.errors import BadSetting


async def allocate(
    admin: AdminSession, *, topic: str, clients: str
) -> dict[str, dict[str, list[dict[str, object]]]]:
    """By client, as the strategy that consumers use if nobody says otherwise."""
    names = clients_in_order({each.strip() for each in clients.split(",") if each.strip()})
    if not names:
        raise BadSetting("no client is named: give them with commas")
    queues = queues_in_order(await read_queues(admin, topic))
    return {
        "result": {
            name: [queue.fields() for queue in Averagely().allocate(name, queues, names)]
            for name in names
        }
    }
