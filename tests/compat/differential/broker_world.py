"""What a broker has for each case, and what a case leaves behind there."""

from typing import Any

from cometmq.protocol.codes import RequestCode
from compat.differential.outcome import comparable, difference, normal
from compat.differential.requests import named
from compat.differential.wire import Connection
from compat.differential.world import Tables, ask, furnish, queues_of

_CODE = RequestCode
# Requests that only read, and share one topic and group.
_READS = frozenset(
    {
        _CODE.QUERY_MESSAGE, _CODE.QUERY_CONSUMER_OFFSET, _CODE.SEARCH_OFFSET_BY_TIMESTAMP,
        _CODE.GET_MAX_OFFSET, _CODE.GET_MIN_OFFSET, _CODE.GET_EARLIEST_MSG_STORETIME,
        _CODE.VIEW_MESSAGE_BY_ID, _CODE.GET_CONSUMER_LIST_BY_GROUP, _CODE.GET_TOPIC_STATS_INFO,
        _CODE.GET_CONSUMER_CONNECTION_LIST, _CODE.GET_PRODUCER_CONNECTION_LIST,
        _CODE.GET_CONSUME_STATS, _CODE.QUERY_TOPIC_CONSUME_BY_WHO, _CODE.QUERY_CONSUME_TIME_SPAN,
        _CODE.GET_CONSUMER_RUNNING_INFO, _CODE.QUERY_CORRECTION_OFFSET,
        _CODE.VIEW_BROKER_STATS_DATA, _CODE.GET_BROKER_CONSUME_STATS, _CODE.QUERY_CONSUME_QUEUE,
        _CODE.GET_ALL_TOPIC_CONFIG, _CODE.GET_ALL_CONSUMER_OFFSET, _CODE.GET_ALL_DELAY_OFFSET,
        _CODE.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, _CODE.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        _CODE.GET_ALL_PRODUCER_INFO, _CODE.GET_BROKER_CONFIG, _CODE.GET_BROKER_RUNTIME_INFO,
        _CODE.CHECK_CLIENT_CONFIG, _CODE.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    }
)  # fmt: skip


class BrokerWorld:
    """A topic with messages, a consumer and a producer, and their offsets."""

    reads = _READS

    def __init__(self) -> None:
        self._tables = (Tables(), Tables())

    async def furnish(self, link: Connection, number: int, code: int) -> dict[str, str]:
        """Make them over the connection of the case; the facts fill placeholders."""
        return await furnish(link, number, half=code == _CODE.END_TRANSACTION)

    async def state(self, link: Connection, number: int) -> Any:
        """Who is connected, and the queues of the topic with their messages."""
        connected = [
            comparable(await ask(link, code, fields))
            for code, fields in (
                (_CODE.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": named("G", number)}),
                (_CODE.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": named("P", number)}),
            )
        ]
        queues = await queues_of(link, named("T", number))
        return {"queues": normal(queues), "connected": connected}

    async def left_behind(self, links: tuple[Connection, Connection]) -> dict[int, list[str]]:
        """Differences in tables and shared topics, by the number of the case."""
        for link, tables in zip(links, self._tables, strict=True):
            await tables.read(link)
            await tables.read_shared(link)
        one, other = self._tables
        lines: dict[int, list[str]] = {}
        for name, (first, second) in {
            "tables": (one.entries, other.entries),
            "shared": (one.shared, other.shared),
        }.items():
            for number in first.keys() | second.keys():
                empty: Any = {} if name == "tables" else []
                found = difference(
                    normal(first.get(number, empty)), normal(second.get(number, empty)), name
                )
                lines.setdefault(number, []).extend(found)
        return lines
