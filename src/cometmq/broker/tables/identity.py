"""The identity of a broker: names, addresses and role, as name servers and clients see it."""

import socket
from dataclasses import dataclass

from cometmq.broker.config import BrokerConfig, BrokerRole
from cometmq.errors import BadSetting
from cometmq.protocol.bodies.route import MASTER_ID
from cometmq.protocol.records.hosts import Host


@dataclass(frozen=True, slots=True)
class Identity:
    """Name, number and address; the port is known once it listens."""

    cluster: str
    name: str
    id: int
    role: BrokerRole
    address: str  # where clients find it: its name, if it was given one
    host: Host  # the same by number, as stored messages have it
    ha_address: str


def identity_of(config: BrokerConfig, port: int) -> Identity:
    """The identity of a broker that listens on this port."""
    told = config.broker_ip1.strip("[]")
    return Identity(
        cluster=config.broker_cluster_name,
        name=config.broker_name,
        id=config.broker_id if config.broker_role is BrokerRole.SLAVE else MASTER_ID,
        role=config.broker_role,
        address=str(Host(told, port)),
        host=Host(_number_of(told), port),
        ha_address=str(Host(config.broker_ip2 or told, port + 1)),
    )


def _number_of(host: str) -> str:
    """Of a name, as Java would find it: of the fourth version, if there is any."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise BadSetting(f"brokerIP1={host}: {error.strerror}") from error
    found.sort(key=lambda each: each[0] != socket.AF_INET)
    return str(found[0][4][0])
