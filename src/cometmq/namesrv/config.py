"""Settings of a name server."""

from typing import Annotated

from msgspec import Meta

from cometmq.protocol.spelling import camel
from cometmq.remoting.tls import TlsMode
from cometmq.settings import Settings

Port = Annotated[int, Meta(ge=0, le=65535)]

_TLS = camel(
    tls_server_mode="tls.server.mode",
    tls_server_cert_path="tls.server.certPath",
    tls_server_key_path="tls.server.keyPath",
    tls_server_key_password="tls.server.keyPassword",  # noqa: S106 - a name
    tls_server_trust_cert_path="tls.server.trustCertPath",
)


class NamesrvConfig(Settings, rename=_TLS):
    """How a name server listens, what it keeps, and when it forgets a broker."""

    # What it promises
    kv_config_path: Annotated[str, Meta(description="file of the key-value configuration")]
    config_store_path: Annotated[str, Meta(description="file that changed settings go to")]
    order_message_enable: Annotated[
        bool, Meta(description="routes of ordered topics carry their orderTopicConf")
    ] = False
    product_env_name: Annotated[str, Meta(description="a name for this environment")] = "center"
    cluster_test: Annotated[
        bool, Meta(description="taken for old files; the test environment it names is not asked")
    ] = False

    # Where it listens
    bind_address: Annotated[str, Meta(description="interface to listen on")] = "0.0.0.0"  # noqa: S104
    listen_port: Annotated[Port, Meta(description="0 lets the system choose")] = 9876
    tls_server_mode: Annotated[
        TlsMode, Meta(description="disabled, permissive (plain and TLS on one port), enforcing")
    ] = TlsMode.PERMISSIVE
    tls_server_cert_path: Annotated[str, Meta(description="certificate, PEM")] = ""
    tls_server_key_path: Annotated[str, Meta(description="its key, PEM")] = ""
    tls_server_key_password: Annotated[str, Meta(description="of the key")] = ""
    tls_server_trust_cert_path: Annotated[
        str, Meta(description="if set, clients must show a certificate that this one signed")
    ] = ""

    # Its bounds
    scan_not_active_broker_interval: Annotated[
        int, Meta(ge=100, description="ms between two looks for silent brokers")
    ] = 10_000
    broker_channel_expired_time: Annotated[
        int, Meta(ge=1_000, description="ms after which a silent broker is forgotten")
    ] = 120_000
    server_channel_max_idle_time_seconds: Annotated[
        int, Meta(ge=1, description="s after which an idle connection is closed")
    ] = 120
    server_socket_backlog: Annotated[
        int, Meta(ge=1, description="connections that wait to be taken")
    ] = 1024
    server_oneway_semaphore_value: Annotated[
        int, Meta(ge=1, description="one-way requests to clients in flight")
    ] = 256
    server_async_semaphore_value: Annotated[
        int, Meta(ge=1, description="requests to clients in flight")
    ] = 64


# What updateNamesrvConfig may change while the server runs: never a path, a port or a certificate.
CHANGEABLE = frozenset({"orderMessageEnable", "productEnvName", "clusterTest"})
