"""Admin functions for name servers: settings, and write permissions of brokers."""

from cometmq.admin.rows import NOT_DONE, SUCCESS, Change, Row, failed
from cometmq.admin.session import AdminSession
from cometmq.errors import PeerError, WorldError
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.base import Header, read_header
from cometmq.protocol.headers.namesrv import AddedReplyHeader, WipedReplyHeader, WritePermHeader
from cometmq.protocol.java.values import format_properties, parse_properties


class PermissionChange(Row, frozen=True):
    """The number of topics of a broker whose permission a name server changed."""

    name_server: str
    broker_name: str
    topics: int | None
    outcome: str


async def settings(admin: AdminSession) -> dict[str, dict[str, str]]:
    """The settings of every name server."""
    return {
        server: parse_properties(answer.body.decode())
        for server, answer in zip(
            admin.name_servers,
            await admin.all(
                admin.ask(server, RequestCode.GET_NAMESRV_CONFIG) for server in admin.name_servers
            ),
            strict=True,
        )
    }


async def update_settings(admin: AdminSession, *, key: str, value: str) -> list[Change]:
    """Change a setting at every name server."""
    body = format_properties({key: value}, escaped=True).encode()
    return await admin.change_servers(
        f"set {key} = {value}", RequestCode.UPDATE_NAMESRV_CONFIG, body=body
    )


async def wipe_write(admin: AdminSession, *, broker_name: str) -> list[PermissionChange]:
    """Remove the write permission of a broker, so that producers stop sending to it."""
    code = RequestCode.WIPE_WRITE_PERM_OF_BROKER
    return await _change_write(admin, code, broker_name, WipedReplyHeader)


async def add_write(admin: AdminSession, *, broker_name: str) -> list[PermissionChange]:
    """Restore the write permission of a broker."""
    code = RequestCode.ADD_WRITE_PERM_OF_BROKER
    return await _change_write(admin, code, broker_name, AddedReplyHeader)


async def _change_write(
    admin: AdminSession, code: RequestCode, broker_name: str, shape: type[Header]
) -> list[PermissionChange]:
    await admin.master_named(broker_name)  # raises NoRoute for an unknown broker

    async def one(server: str) -> PermissionChange:
        if admin.config.dry_run:
            return PermissionChange(server, broker_name, None, NOT_DONE)
        try:
            answer = await admin.ask(server, code, WritePermHeader(broker_name=broker_name))
        except (PeerError, WorldError) as error:
            return PermissionChange(server, broker_name, None, failed(error))
        counts = read_header(answer, shape)
        count: int = getattr(counts, counts.__struct_fields__[0])
        return PermissionChange(server, broker_name, count, SUCCESS)

    return await admin.all(map(one, admin.name_servers))
