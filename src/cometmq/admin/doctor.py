"""Can everybody be reached where they say they are? If not, what to set."""

from ipaddress import ip_address

from cometmq.admin.rows import Row
from cometmq.admin.session import AdminSession
from cometmq.errors import PeerError, Unreachable, WorldError
from cometmq.protocol.bodies.route import MASTER_ID, ClusterInfo
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.records.hosts import second_port_of
from cometmq.remoting.address import parse_address

_LOOK_MS = 3_000
OK = "ok"
_WARNING = "warning"
_PROBLEM = "problem"


class Finding(Row, frozen=True):
    """One thing that was looked at."""

    what: str
    address: str
    state: str
    advice: str | None = None

    @property
    def is_failure(self) -> bool:
        """Clients will meet it."""
        return self.state == _PROBLEM


async def examine(admin: AdminSession) -> list[Finding]:
    """All name servers, and every address that they tell of brokers."""
    told: dict[str, ClusterInfo] = {}
    findings = []
    for server in admin.name_servers:
        try:
            answer = await admin.ask(
                server, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=_LOOK_MS
            )
        except (PeerError, WorldError) as error:
            advice = f"start it, or take it out of -n and of namesrvAddr ({error})"
            findings.append(Finding("name server", server, _PROBLEM, advice))
        else:
            told[server] = loads(answer.body, ClusterInfo)
            findings.append(Finding("name server", server, OK))
    findings += _disagreements(told)
    brokers = {
        name: each for found in told.values() for name, each in found.broker_addr_table.items()
    }
    if told and not brokers:
        advice = f"start a broker with namesrvAddr={';'.join(admin.name_servers)}"
        findings.append(Finding("brokers", "none is registered", _PROBLEM, advice))
    for name, broker in sorted(brokers.items()):
        for number, address in sorted(broker.broker_addrs.items()):
            findings += await _node(admin, f"broker {name}:{number}", address)
        if MASTER_ID not in broker.broker_addrs:
            advice = "start its master: messages can be read, and none be sent"
            findings.append(Finding(f"broker {name}", "no master", _PROBLEM, advice))
    return findings


def _disagreements(told: dict[str, ClusterInfo]) -> list[Finding]:
    """A broker registers at every name server that it knows: each should know the same."""
    known = {
        server: {
            f"{name}:{number} at {address}"
            for name, each in found.broker_addr_table.items()
            for number, address in each.broker_addrs.items()
        }
        for server, found in told.items()
    }
    everything = set().union(*known.values())
    return [
        Finding(
            "name server",
            server,
            _PROBLEM,
            f"it does not know {', '.join(sorted(missing))}:"
            " have all name servers in namesrvAddr of every broker",
        )
        for server, own in known.items()
        if (missing := everything - own)
    ]


async def _node(admin: AdminSession, what: str, address: str) -> list[Finding]:
    mapped = admin.config.address_map.get(address)
    try:
        await _look(admin, address)
    except Unreachable:
        return [Finding(what, mapped or address, _PROBLEM, await _advice(admin, address, mapped))]
    except (PeerError, WorldError) as error:
        advice = f"something listens there and does not answer as a broker does: {error}"
        return [Finding(what, mapped or address, _PROBLEM, advice)]
    if mapped:
        return [Finding(what, address, OK, f"by way of {mapped}")]
    findings = await _second_port(admin, what, address)
    if _is_loopback(address) and not all(map(_is_loopback, admin.name_servers)):
        advice = "only this machine can reach it: set brokerIP1 to an address that clients can"
        return [Finding(what, address, _WARNING, advice), *findings]
    return [Finding(what, address, OK), *findings]


async def _second_port(admin: AdminSession, what: str, address: str) -> list[Finding]:
    """Where a broker takes all but pulls, of clients that wish it so."""
    second = second_port_of(address)
    try:
        await _look(admin, second)
    except (PeerError, WorldError):
        advice = "clients with vipChannelEnabled use it: open it, or have them do without"
        return [Finding(f"{what}, second port", second, _WARNING, advice)]
    return []


async def _look(admin: AdminSession, address: str) -> None:
    """Whatever it answers: Apache's broker fails at this in its first moments."""
    await admin.invoke(address, RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=_LOOK_MS)


async def _advice(admin: AdminSession, address: str, mapped: str | None) -> str:
    """Brokers in containers or behind NAT tell an address that holds only where they are."""
    if mapped:
        return f"address_map sends {address} to {mapped}, where nobody listens: correct it"
    _, port = parse_address(address)
    for server in admin.name_servers:
        elsewhere = f"{server.rpartition(':')[0]}:{port}"
        if elsewhere == address:
            continue
        try:
            await _look(admin, elsewhere)
        except (PeerError, WorldError):
            continue
        host = elsewhere.rpartition(":")[0]
        return (
            f"nobody listens there, but a broker does at {elsewhere}: set brokerIP1={host} at the"
            f" broker, or address_map={{'{address}': '{elsewhere}'}} at the client"
        )
    return (
        "nobody listens there: start the broker, open the port, or set brokerIP1 of the broker to"
        " an address that clients can reach"
    )


def _is_loopback(address: str) -> bool:
    host, _ = parse_address(address)
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
