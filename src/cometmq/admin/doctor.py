"""Checks that every registered address is reachable, and suggests settings if one is not."""

from ipaddress import ip_address

from cometmq.admin.rows import Row
from cometmq.admin.session import AdminSession
from cometmq.errors import PeerError, Unreachable, WorldError
from cometmq.protocol.bodies.route import MASTER_ID, ClusterInfo
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.records.hosts import second_port_of
from cometmq.remoting.address import parse_address

_PROBE_MS = 3_000
OK = "ok"
_WARNING = "warning"
_PROBLEM = "problem"


class Finding(Row, frozen=True):
    """The result of one check."""

    what: str
    address: str
    state: str
    advice: str | None = None

    @property
    def is_failure(self) -> bool:
        """Does the finding prevent clients from working?"""
        return self.state == _PROBLEM


async def examine(admin: AdminSession) -> list[Finding]:
    """Check all name servers and all broker addresses that are registered with them."""
    known: dict[str, ClusterInfo] = {}
    findings = []
    for server in admin.name_servers:
        try:
            answer = await admin.ask(
                server, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=_PROBE_MS
            )
        except (PeerError, WorldError) as error:
            advice = f"start it, or remove it from -n and namesrvAddr ({error})"
            findings.append(Finding("name server", server, _PROBLEM, advice))
        else:
            known[server] = loads(answer.body, ClusterInfo)
            findings.append(Finding("name server", server, OK))
    findings += _disagreements(known)
    brokers = {
        name: each for found in known.values() for name, each in found.broker_addr_table.items()
    }
    if known and not brokers:
        advice = f"start a broker with namesrvAddr={';'.join(admin.name_servers)}"
        findings.append(Finding("brokers", "none registered", _PROBLEM, advice))
    for name, broker in sorted(brokers.items()):
        for number, address in sorted(broker.broker_addrs.items()):
            findings += await _node(admin, f"broker {name}:{number}", address)
        if MASTER_ID not in broker.broker_addrs:
            advice = "start its master: without one, messages can be read but not sent"
            findings.append(Finding(f"broker {name}", "no master", _PROBLEM, advice))
    return findings


def _disagreements(known: dict[str, ClusterInfo]) -> list[Finding]:
    """Name servers with which some brokers are not registered."""
    registered = {
        server: {
            f"{name}:{number} at {address}"
            for name, each in found.broker_addr_table.items()
            for number, address in each.broker_addrs.items()
        }
        for server, found in known.items()
    }
    everything = set().union(*registered.values())
    return [
        Finding(
            "name server",
            server,
            _PROBLEM,
            f"lacks {', '.join(sorted(missing))}:"
            " list all name servers in namesrvAddr of every broker",
        )
        for server, own in registered.items()
        if (missing := everything - own)
    ]


async def _node(admin: AdminSession, what: str, address: str) -> list[Finding]:
    mapped = admin.config.address_map.get(address)
    try:
        await _probe(admin, address)
    except Unreachable:
        return [Finding(what, mapped or address, _PROBLEM, await _advice(admin, address, mapped))]
    except (PeerError, WorldError) as error:
        advice = f"not a broker: {error}"
        return [Finding(what, mapped or address, _PROBLEM, advice)]
    if mapped:
        return [Finding(what, address, OK, f"reached at {mapped}")]
    findings = await _second_port(admin, what, address)
    if _is_loopback(address) and not all(map(_is_loopback, admin.name_servers)):
        advice = (
            "only reachable from this machine: set brokerIP1 to an address that clients can reach"
        )
        return [Finding(what, address, _WARNING, advice), *findings]
    return [Finding(what, address, OK), *findings]


async def _second_port(admin: AdminSession, what: str, address: str) -> list[Finding]:
    """Check the second port, which serves all requests except pulls."""
    second = second_port_of(address)
    try:
        await _probe(admin, second)
    except (PeerError, WorldError):
        advice = "used by clients with vipChannelEnabled: open the port, or disable that setting"
        return [Finding(f"{what}, second port", second, _WARNING, advice)]
    return []


async def _probe(admin: AdminSession, address: str) -> None:
    """Send a request; any response will do: Apache's broker answers with an error at first."""
    await admin.invoke(address, RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=_PROBE_MS)


async def _advice(admin: AdminSession, address: str, mapped: str | None) -> str:
    """Advice for an unreachable broker: in a container or behind NAT its address may be local."""
    if mapped:
        return f"address_map maps {address} to {mapped}, which is not reachable: correct it"
    _, port = parse_address(address)
    for server in admin.name_servers:
        elsewhere = f"{server.rpartition(':')[0]}:{port}"
        if elsewhere == address:
            continue
        try:
            await _probe(admin, elsewhere)
        except (PeerError, WorldError):
            continue
        host = elsewhere.rpartition(":")[0]
        return (
            f"not reachable, but a broker answers at {elsewhere}: set brokerIP1={host} at the"
            f" broker, or address_map={{'{address}': '{elsewhere}'}} at the client"
        )
    return (
        "not reachable: start the broker, open the port, or set brokerIP1 of the broker to"
        " an address that clients can reach"
    )


def _is_loopback(address: str) -> bool:
    host, _ = parse_address(address)
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
