"""TLS: the three modes of a server, and a client that verifies unless it is told not to."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from cometmq.errors import BadSetting, TimedOut, Unreachable
from cometmq.protocol.command import Command
from cometmq.protocol.frame import encode_frame
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Route
from cometmq.remoting.limits import Limits
from cometmq.remoting.tls import ServerTls, TlsMode, client_context, server_context
from peers.certificates import Authority, Pair
from remoting.rig import (
    ECHO,
    NoteHeader,
    echo,
    on_asyncio,
    on_both,
    pooling,
    raw_peer,
    serving,
    until,
)

PING = encode_frame(Command(code=ECHO, opaque=1, body=b"ping"))
ALERT = b"\x15"  # the only kind of TLS record that may stand unencrypted before a handshake


class Certificates:
    """An authority that signed a server and a client, and one that nobody trusts."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder, "authority")
        self.stranger = Authority(folder, "stranger")
        self.server = self.authority.issue("server", "127.0.0.1", "localhost")
        self.elsewhere = self.authority.issue("elsewhere", "broker.example")
        self.client = self.authority.issue("client", "client")
        self.strange_client = self.stranger.issue("strange-client", "client")
        self.locked = self.authority.issue("locked", "127.0.0.1", password=b"open")

    @property
    def trust(self) -> Path:
        return self.authority.pair.cert


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: Any) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def server_tls(mode: TlsMode, pair: Pair, trust: Path | None = None) -> ServerTls:
    return ServerTls(mode, server_context(pair.cert, pair.key, trust=trust))


@on_both
async def test_permissive_serves_plain_and_tls_on_one_port(certificates):
    tls = server_tls(TlsMode.PERMISSIVE, certificates.server)
    async with (
        serving(tls=tls) as served,
        pooling() as plain,
        pooling(tls=client_context(certificates.trust)) as secret,
    ):
        body = bytes(range(256)) * 8192
        for pool in (plain, secret, plain, secret):
            answer = await pool.invoke(served.address, ECHO, None, body, timeout_ms=10_000)
            assert answer.body == body
        answers = await asyncio.gather(
            *(
                pool.invoke(served.address, ECHO, NoteHeader(number=n), timeout_ms=10_000)
                for n in range(100)
                for pool in (plain, secret)
            )
        )
        assert {answer.code for answer in answers} == {0}
        assert served.server.connection_count == 2


@on_both
async def test_permissive_leaves_every_byte_it_looked_at(certificates):
    tls = server_tls(TlsMode.PERMISSIVE, certificates.server)
    async with serving(tls=tls) as served, raw_peer(served.port) as peer:
        assert served.server.connection_count == 0
        for byte in PING:
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)
        answer = await peer.command()
        assert answer is not None
        assert answer.body == b"ping"


@on_both
async def test_permissive_and_silent_peers(certificates):
    """Who says nothing keeps neither the others from being served nor the server from ending."""
    tls = server_tls(TlsMode.PERMISSIVE, certificates.server)
    async with serving(tls=tls) as served, pooling() as pool:
        socks = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(50)]
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
        await until(lambda: len(served.server._welcoming) == 50)
        for sock in socks[:25]:
            sock.close()
        await until(lambda: len(served.server._welcoming) == 25)
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
    for sock in socks:
        sock.close()


@on_both
async def test_permissive_gives_up_a_silent_peer_after_the_idle_time(certificates):
    tls = server_tls(TlsMode.PERMISSIVE, certificates.server)
    limits = Limits(idle_ms_max=50)
    async with serving(tls=tls, limits=limits) as served, raw_peer(served.port) as peer:
        await peer.closed()
        assert not served.server._welcoming


@on_both
async def test_enforcing_serves_no_plaintext(certificates):
    tls = server_tls(TlsMode.ENFORCING, certificates.server)
    async with (
        serving(tls=tls) as served,
        pooling() as plain,
        pooling(tls=client_context(certificates.trust)) as secret,
    ):
        with pytest.raises((Unreachable, TimedOut)):
            await plain.invoke(served.address, ECHO, timeout_ms=5000)
        async with raw_peer(served.port) as peer:
            await peer.send(PING * 100)
            received = await everything_from(peer.reader)
            assert received[:1] in (b"", ALERT)
            assert b"ping" not in received
            assert b"{" not in received
        assert (await secret.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
        assert served.server.connection_count == 1


async def everything_from(reader: asyncio.StreamReader) -> bytes:
    received = b""
    async with asyncio.timeout(60):
        try:
            while data := await reader.read(1 << 16):
                received += data
        except ConnectionError:
            pass
    return received


@on_both
async def test_disabled_does_not_understand_tls(certificates):
    tls = ServerTls(TlsMode.DISABLED, server_tls(TlsMode.PERMISSIVE, certificates.server).context)
    async with (
        serving(tls=tls) as served,
        pooling() as plain,
        pooling(tls=client_context(certificates.trust)) as secret,
    ):
        with pytest.raises(Unreachable):
            await secret.invoke(served.address, ECHO, timeout_ms=5000)
        assert (await plain.invoke(served.address, ECHO, timeout_ms=5000)).code == 0


@on_both
async def test_a_client_verifies_by_default(certificates):
    trusting = client_context(certificates.trust)
    cases = [
        ("server", trusting, "127.0.0.1", True),
        ("server", trusting, "localhost", True),
        ("server", client_context(), "127.0.0.1", False),  # an authority the system does not know
        ("server", client_context(certificates.stranger.pair.cert), "127.0.0.1", False),
        ("elsewhere", trusting, "127.0.0.1", False),  # the name is another's
        ("elsewhere", trusting, "localhost", False),
        ("server", client_context(verify=False), "127.0.0.1", True),
        ("elsewhere", client_context(verify=False), "127.0.0.1", True),
    ]
    for pair, context, host, accepted in cases:
        tls = server_tls(TlsMode.ENFORCING, getattr(certificates, pair))
        async with serving(tls=tls) as served, pooling(tls=context) as pool:
            address = f"{host}:{served.port}"
            if accepted:
                assert (await pool.invoke(address, ECHO, timeout_ms=5000)).code == 0
            else:
                with pytest.raises(Unreachable, match=address):
                    await pool.invoke(address, ECHO, timeout_ms=5000)


@on_both
async def test_client_certificates_are_required_when_trust_is_set(certificates):
    tls = server_tls(TlsMode.ENFORCING, certificates.server, trust=certificates.trust)
    asked: list[Any] = []

    def noting(call: Any, ask: NoteHeader) -> Any:
        asked.append(call.link.peer)
        return echo(call, ask)

    async with serving({ECHO: Route(noting, NoteHeader, OPEN)}, tls=tls) as served:
        for pair, accepted in (
            (None, False),
            (certificates.strange_client, False),
            (certificates.client, True),
        ):
            context = client_context(
                certificates.trust, cert=pair and pair.cert, key=pair and pair.key
            )
            async with pooling(tls=context) as pool:
                if accepted:
                    assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
                else:
                    with pytest.raises(Unreachable):
                        await pool.invoke(served.address, ECHO, timeout_ms=5000)
        assert len(asked) == 1


@on_both
async def test_old_versions_of_tls_are_refused(certificates):
    tls = server_tls(TlsMode.ENFORCING, certificates.server)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning):
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with serving(tls=tls) as served, pooling(tls=old) as pool:
        with pytest.raises(Unreachable):
            await pool.invoke(served.address, ECHO, timeout_ms=5000)


@on_both
async def test_a_broken_handshake_is_the_peer_s_own_affair(certificates):
    tls = server_tls(TlsMode.PERMISSIVE, certificates.server)
    async with serving(tls=tls) as served, pooling(tls=client_context(certificates.trust)) as pool:
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
        for junk in (b"\x16", b"\x16\x03\x01\xff\xff" + bytes(70_000), b"\x16" * 1000):
            async with raw_peer(served.port) as peer:
                await peer.send(junk)
                peer.writer.write_eof()
                await peer.closed()
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
        await until(lambda: not served.server._welcoming)


@on_both
async def test_a_stop_does_not_wait_for_the_goodbye_of_a_peer_that_is_silent(certificates):
    tls = server_tls(TlsMode.ENFORCING, certificates.server)
    context = client_context(certificates.trust)
    async with serving(tls=tls) as served:
        sock = await asyncio.to_thread(handshaken, served.port, context)
        try:
            await until(lambda: served.server.connection_count == 1)
            async with asyncio.timeout(9):  # less than a connection waits for its peer
                await served.server.close()
            assert served.server.connection_count == 0
        finally:
            sock.close()


def handshaken(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    sock = socket.create_connection(("127.0.0.1", port))
    return context.wrap_socket(sock, server_hostname="127.0.0.1")


@on_both
async def test_a_malformed_frame_inside_tls_ends_the_connection(certificates):
    tls = server_tls(TlsMode.ENFORCING, certificates.server)
    context = client_context(certificates.trust)
    async with (
        serving(tls=tls) as served,
        raw_peer(served.port, ssl=context, server_hostname="127.0.0.1") as peer,
    ):
        await peer.send(PING + b"\xff" * 100 + PING)
        assert await peer.command()
        await peer.closed()
        await until(lambda: served.server.connection_count == 0)


@on_asyncio
async def test_settings_that_cannot_work_are_refused(certificates, tmp_path):
    with pytest.raises(BadSetting):
        ServerTls(TlsMode.ENFORCING)
    server, locked = certificates.server, certificates.locked
    with pytest.raises(BadSetting):
        server_context(server.cert, certificates.client.key)
    with pytest.raises(BadSetting):
        server_context(tmp_path / "none.pem", server.key)
    for password in (None, "wrong"):
        with pytest.raises(BadSetting):
            server_context(locked.cert, locked.key, password)
    tls = ServerTls(TlsMode.ENFORCING, server_context(locked.cert, locked.key, "open"))
    async with serving(tls=tls) as served, pooling(tls=client_context(certificates.trust)) as pool:
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
