"""Settings that every server has: where it listens, its TLS, its bounds."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from cometmq.protocol.java.spelling import camel
from cometmq.remoting.limits import Limits
from cometmq.remoting.tls import ServerTls, TlsMode, server_context
from cometmq.settings.settings import Settings

Port = Annotated[int, Meta(ge=0, le=65535)]

TLS_NAMES = {
    "tls_server_mode": "tls.server.mode",
    "tls_server_cert_path": "tls.server.certPath",
    "tls_server_key_path": "tls.server.keyPath",
    "tls_server_key_password": "tls.server.keyPassword",
    "tls_server_trust_cert_path": "tls.server.trustCertPath",
}


class ServerConfig(Settings, rename=camel(**TLS_NAMES)):
    """Of a name server, and of a broker."""

    # Where it listens
    bind_address: Annotated[str, Meta(description="interface to listen on")] = "0.0.0.0"  # noqa: S104
    listen_port: Annotated[Port, Meta(description="0 lets the system choose")] = 0
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

    @property
    def limits(self) -> Limits:
        """Of its connections."""
        return Limits(
            backlog=self.server_socket_backlog,
            idle_ms_max=self.server_channel_max_idle_time_seconds * 1000,
            oneway_max=self.server_oneway_semaphore_value,
            async_max=self.server_async_semaphore_value,
        )

    @property
    def tls(self) -> ServerTls:
        """Permissive without a certificate can only be plain, and says nothing about it."""
        if self.tls_server_mode is TlsMode.DISABLED or not self.tls_server_cert_path:
            return ServerTls(self.tls_server_mode)
        trust = self.tls_server_trust_cert_path
        context = server_context(
            Path(self.tls_server_cert_path),
            Path(self.tls_server_key_path),
            self.tls_server_key_password or None,
            Path(trust) if trust else None,
        )
        return ServerTls(self.tls_server_mode, context)
