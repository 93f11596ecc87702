"""Requests of a name server, what a case finds there, and what it leaves behind."""

from typing import Any

import msgspec

from cometmq.protocol.codes import RequestCode
from compat.differential.outcome import comparable, normal
from compat.differential.requests import Fields, named
from compat.differential.wire import Connection
from compat.differential.world import ask, json_of, number_in

_CODE = RequestCode
_BROKER: Fields = {"brokerName": "B", "brokerAddr": "A", "clusterName": "C", "brokerId": "0"}
_VERSION = {"counter": 1, "timestamp": 1_700_000_000_000}
_TOPIC = {
    "order": False, "perm": 6, "readQueueNums": 4, "topicFilterType": "SINGLE_TAG",
    "topicName": "T", "topicSysFlag": 0, "writeQueueNums": 4,
}  # fmt: skip
_REGISTER = msgspec.json.encode(
    {
        "filterServerList": [],
        "topicConfigSerializeWrapper": {"dataVersion": _VERSION, "topicConfigTable": {"T": _TOPIC}},
    }
)


def namesrv_requests() -> dict[int, tuple[Fields, bytes]]:
    """By code: fields and body of a request that is answered with success."""
    kv: Fields = {"namespace": "N", "key": "K"}
    return {
        _CODE.PUT_KV_CONFIG: (kv | {"value": "other"}, b""),
        _CODE.GET_KV_CONFIG: (kv, b""),
        _CODE.DELETE_KV_CONFIG: (kv, b""),
        _CODE.REGISTER_BROKER: (
            _BROKER | {"haServerAddr": "H", "compressed": "false", "bodyCrc32": "0"},
            _REGISTER,
        ),
        _CODE.UNREGISTER_BROKER: (_BROKER, b""),
        _CODE.GET_ROUTEINFO_BY_TOPIC: ({"topic": "T", "acceptStandardJsonOnly": "false"}, b""),
        _CODE.WIPE_WRITE_PERM_OF_BROKER: ({"brokerName": "B"}, b""),
        _CODE.ADD_WRITE_PERM_OF_BROKER: ({"brokerName": "B"}, b""),
        _CODE.DELETE_TOPIC_IN_NAMESRV: ({"topic": "T", "clusterName": "C"}, b""),
        _CODE.GET_KVLIST_BY_NAMESPACE: ({"namespace": "N"}, b""),
        _CODE.GET_TOPICS_BY_CLUSTER: ({"cluster": "C"}, b""),
        _CODE.UPDATE_NAMESRV_CONFIG: ({}, b"orderMessageEnable=false"),
        _CODE.QUERY_DATA_VERSION: (_BROKER, msgspec.json.encode(_VERSION)),
    }


class NamesrvWorld:
    """What a name server has for each case: a broker with a topic, and a configuration item."""

    reads: frozenset[int] = frozenset()

    async def furnish(self, link: Connection, number: int, code: int) -> dict[str, str]:
        """Register the broker over the connection of the case."""
        for request in (_CODE.REGISTER_BROKER, _CODE.PUT_KV_CONFIG):
            fields, body = namesrv_requests()[request]
            named_fields: Fields = {
                name: named(value, number) if value in ("N", "K", "B", "A", "C", "H") else value
                for name, value in fields.items()
                if isinstance(value, str)
            }
            topic = msgspec.json.encode(named("T", number))
            answer = await ask(link, request, named_fields, body.replace(b'"T"', topic))
            assert answer.code == 0, answer
        return {}

    async def state(self, link: Connection, number: int) -> Any:
        """Its routes, its brokers and its configuration items."""
        route = await ask(link, _CODE.GET_ROUTEINFO_BY_TOPIC, {"topic": named("T", number)})
        items = await ask(link, _CODE.GET_KVLIST_BY_NAMESPACE, {"namespace": named("N", number)})
        cluster = json_of((await ask(link, _CODE.GET_BROKER_CLUSTER_INFO, {})).body)
        own = {
            kind: {name: each for name, each in table.items() if number_in(name) == number}
            for kind, table in (cluster or {}).items()
        }
        topics = json_of((await ask(link, _CODE.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})).body)
        names = [name for name in (topics or {}).get("topicList", ()) if number_in(name) == number]
        return {
            "route": comparable(route), "items": comparable(items), "cluster": normal(own),
            "topics": normal(names),
        }  # fmt: skip

    async def left_behind(self, links: tuple[Connection, Connection]) -> dict[int, list[str]]:
        """All of it is read while the case is connected: its broker leaves with the connection."""
        return {}
