"""Encoded routes, cached until the table changes.

Every client asks for its topics every 30 s, and brokers change theirs seldom.
"""

from typing import Generic, TypeVar

from cometmq.namesrv.route_table import RouteTable
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.limits import ROUTES_SIZE_MAX

L = TypeVar("L")


class EncodedRoutes(Generic[L]):
    """A cache in front of `RouteTable.route`."""

    def __init__(self, table: RouteTable[L]) -> None:
        self._table = table
        self._generation = table.generation
        self._bodies: dict[tuple[str, str | None, bool], bytes] = {}
        self._size = 0

    def route(self, topic: str, order_conf: str | None, *, standard: bool) -> bytes | None:
        """The body of a route answer; None if there is no route."""
        if self._generation != self._table.generation:
            self._generation = self._table.generation
            self._bodies.clear()
            self._size = 0
        key = topic, order_conf, standard
        body = self._bodies.get(key)
        if body is None:
            route = self._table.route(topic, order_conf)
            if route is None:
                return None
            body = dumps(route, standard=standard)
            if self._size + len(body) <= ROUTES_SIZE_MAX:
                self._bodies[key] = body
                self._size += len(body)
        return body
