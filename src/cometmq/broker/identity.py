"""Who a broker is, as everybody is told."""

from dataclasses import dataclass

from cometmq.broker.config import BrokerConfig, BrokerRole
from cometmq.protocol.bodies.route import MASTER_ID
from cometmq.protocol.hosts import Host


@dataclass(frozen=True, slots=True)
class Identity:
    """Name, number and address; the port is known once it listens."""

    cluster: str
    name: str
    id: int
    role: BrokerRole
    host: Host
    ha_address: str

    @property
    def address(self) -> str:
        """Where clients find it."""
        return str(self.host)


def identity_of(config: BrokerConfig, port: int) -> Identity:
    """The identity of a broker that listens on this port."""
    return Identity(
        cluster=config.broker_cluster_name,
        name=config.broker_name,
        id=config.broker_id if config.broker_role is BrokerRole.SLAVE else MASTER_ID,
        role=config.broker_role,
        host=Host(config.broker_ip1, port),
        ha_address=str(Host(config.broker_ip2 or config.broker_ip1, port + 1)),
    )
