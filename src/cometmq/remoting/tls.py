"""TLS for both sides, with the three server modes of Apache RocketMQ.

disabled    plain only
permissive  plain and TLS on one port: the first byte of a TLS connection is 0x16, which no
            frame starts with, since a frame of 0x16...... bytes is far over the limit
enforcing   TLS only
"""

import ssl
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cometmq.errors import BadSetting
from cometmq.protocol.limits import FRAME_SIZE_MAX

HANDSHAKE = b"\x16"
assert int.from_bytes(HANDSHAKE + b"\0\0\0") > FRAME_SIZE_MAX


class TlsMode(Enum):
    """What a server takes."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


@dataclass(frozen=True, slots=True)
class ServerTls:
    """A mode, and the context if the mode needs one."""

    mode: TlsMode = TlsMode.DISABLED
    context: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        if self.mode is TlsMode.ENFORCING and self.context is None:
            raise BadSetting("tls.server.mode=enforcing needs tls.server.certPath and keyPath")


def server_context(
    cert: Path, key: Path, password: str | None = None, trust: Path | None = None
) -> ssl.SSLContext:
    """TLS 1.2 or newer; with `trust`, clients must show a certificate that it signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_pair(context, cert, key, password)
    if trust is not None:
        _load_trust(context, trust)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(
    trust: Path | None = None,
    *,
    verify: bool = True,
    cert: Path | None = None,
    key: Path | None = None,
    password: str | None = None,
) -> ssl.SSLContext:
    """Verifies the server, unless told not to: the system's authorities, or those of `trust`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if trust is not None:
        _load_trust(context, trust)
    else:
        context.load_default_certs()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if (cert is None) != (key is None):
        raise BadSetting("a client certificate needs its key, and a key its certificate")
    if cert is not None and key is not None:
        _load_pair(context, cert, key, password)
    return context


def _load_trust(context: ssl.SSLContext, trust: Path) -> None:
    try:
        context.load_verify_locations(trust)
    except (OSError, ssl.SSLError) as error:
        raise BadSetting(f"trusted certificates {trust}: {error}") from error


def _load_pair(context: ssl.SSLContext, cert: Path, key: Path, password: str | None) -> None:
    try:
        # A given password, also an empty one, keeps openssl from asking at the terminal.
        context.load_cert_chain(cert, key, password or "")
    except (OSError, ssl.SSLError) as error:
        raise BadSetting(f"certificate {cert} with key {key}: {error}") from error
