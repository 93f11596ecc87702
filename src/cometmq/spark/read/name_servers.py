"""Requests to name servers: routes and topic names. The first name server that answers is used."""

import re
from collections.abc import Sequence

from cometmq.client.session.route import ClientRoute
from cometmq.errors import BadSetting, NoRoute, TimedOut, Unreachable
from cometmq.protocol.bodies.route import TopicList, TopicRoute
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import Header
from cometmq.protocol.headers.namesrv import RouteHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.names import is_system_topic
from cometmq.protocol.refusal import refusal_of
from cometmq.spark.read.link import Access, links_of

_ATTEMPTS = 2  # the first may use a pooled connection that is dead, the second opens a new one
_NOT_FOR_USERS = ("%RETRY%", "%DLQ%", "rmq_sys_")


def parse_name_servers(text: str) -> tuple[str, ...]:
    """Parse `host:port` addresses that are separated by semicolons or commas."""
    found = tuple(part.strip() for part in re.split("[;,]", text) if part.strip())
    for address in found:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise BadSetting(
                f"option nameServer is {text!r}: expected host:port, separate several with ;"
            )
    if not found:
        raise BadSetting("option nameServer is empty: expected host:port, separate several with ;")
    return found


def fetch_route(name_servers: Sequence[str], access: Access, topic: str) -> ClientRoute:
    """Raises NoRoute if the name servers do not know the topic."""
    header = RouteHeader(topic=topic, accept_standard_json_only=True)
    response = ask_name_server(name_servers, access, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
    if response.code != ResponseCode.SUCCESS:
        raise NoRoute(
            f"topic {topic} is unknown to the name servers {';'.join(name_servers)}:"
            " check its name, create it, or start the broker that has it"
        )
    return ClientRoute.of(topic, loads(bytes(response.body), TopicRoute))


def matching_topics(name_servers: Sequence[str], access: Access, pattern: str) -> list[str]:
    """Return the user topics whose whole name matches. An empty result is not an error."""
    code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    response = ask_name_server(name_servers, access, code)
    if response.code != ResponseCode.SUCCESS:
        raise refusal_of(response, f"name server {name_servers[0]}")
    wanted = re.compile(pattern)
    names = loads(bytes(response.body), TopicList).topic_list
    return sorted(
        name
        for name in names
        if wanted.fullmatch(name)
        and not is_system_topic(name)
        and not name.startswith(_NOT_FOR_USERS)
    )


def ask_name_server(
    name_servers: Sequence[str], access: Access, code: RequestCode, header: Header | None = None
) -> Command:
    """Return the first response; Unreachable if no name server answers."""
    failures = []
    for address in name_servers:
        for _ in range(_ATTEMPTS):
            try:
                return links_of(access).to(address).ask(code, header)
            except (Unreachable, TimedOut) as error:
                failures.append(str(error))
    raise Unreachable(
        f"no name server answers ({'; '.join(dict.fromkeys(failures))}):"
        " check the option nameServer"
    )
