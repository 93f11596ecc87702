"""Queries that all blocking clients offer."""

from cometmq.blocking.face import C, Face, calls, waits
from cometmq.client.session.asker import Asker


class AskerFace(Face[C]):
    """Base of the blocking clients: queues, offsets, topics and single messages."""

    on_connection = calls(Asker.on_connection)
    fetch_publish_queues = waits(Asker.fetch_publish_queues)
    fetch_subscribe_queues = waits(Asker.fetch_subscribe_queues)
    max_offset = waits(Asker.max_offset)
    min_offset = waits(Asker.min_offset)
    search_offset = waits(Asker.search_offset)
    earliest_stored_ms = waits(Asker.earliest_stored_ms)
    create_topic = waits(Asker.create_topic)
    view_message = waits(Asker.view_message)
    query_message = waits(Asker.query_message)
