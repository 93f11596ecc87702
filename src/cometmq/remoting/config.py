"""Settings of every server: address, TLS, connection limits."""

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
    """Settings that name servers and brokers share."""

    # Address and TLS
    bind_address: Annotated[str, Meta(description="address of the interface to listen on")] = (
        "0.0.0.0"  # noqa: S104
    )
    listen_port: Annotated[Port, Meta(description="port to listen on; 0: any free port")] = 0
    tls_server_mode: Annotated[
        TlsMode, Meta(description="permissive: plain and TLS on the same port; enforcing: only TLS")
    ] = TlsMode.PERMISSIVE
    tls_server_cert_path: Annotated[
        str, Meta(description="PEM file of the certificate; without it the server has no TLS")
    ] = ""
    tls_server_key_path: Annotated[str, Meta(description="PEM file of the private key")] = ""
    tls_server_key_password: Annotated[str, Meta(description="password of the private key")] = ""
    tls_server_trust_cert_path: Annotated[
        str, Meta(description="PEM file of a CA; if set, clients need a certificate signed by it")
    ] = ""

    # Limits
    server_channel_max_idle_time_seconds: Annotated[
        int, Meta(ge=1, description="seconds after which an idle connection is closed")
    ] = 120
    server_socket_backlog: Annotated[
        int, Meta(ge=1, description="connections that wait to be accepted (listen backlog)")
    ] = 1024
    server_oneway_semaphore_value: Annotated[
        int, Meta(ge=1, description="limit of one-way requests in flight to clients")
    ] = 256
    server_async_semaphore_value: Annotated[
        int, Meta(ge=1, description="limit of requests in flight to clients")
    ] = 64

    @property
    def limits(self) -> Limits:
        """The limits of connections."""
        return Limits(
            backlog=self.server_socket_backlog,
            idle_ms_max=self.server_channel_max_idle_time_seconds * 1000,
            oneway_max=self.server_oneway_semaphore_value,
            async_max=self.server_async_semaphore_value,
        )

    @property
    def tls(self) -> ServerTls:
        """The TLS mode and context. Without a certificate, permissive means plain only."""
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
