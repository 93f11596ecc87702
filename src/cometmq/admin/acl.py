"""Access control: accounts, and addresses that need no account."""

from cometmq.admin.rows import Change, Row, Time
from cometmq.admin.session import AdminSession
from cometmq.protocol.bodies.tables import DataVersion
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.acl import (
    AclVersionReplyHeader,
    CreateAccountHeader,
    DeleteAccountHeader,
    WhiteAddressesHeader,
)
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.java.fastjson import loads


class AclVersion(Row, frozen=True):
    """The version of the account configuration of a broker, by file."""

    cluster_name: str
    broker_name: str
    broker_addr: str
    acl_file_path: str | None
    acl_config_version_num: int
    acl_last_update_time: Time


async def update(
    admin: AdminSession,
    *,
    access_key: str,
    secret_key: str,
    broker: str | None = None,
    cluster: str | None = None,
    white_address: str | None = None,
    default_topic_perm: str | None = None,
    default_group_perm: str | None = None,
    topic_perms: str | None = None,
    group_perms: str | None = None,
    is_admin: bool = False,
) -> list[Change]:
    """Create or change an account."""
    header = CreateAccountHeader(
        access_key=access_key,
        secret_key=secret_key,
        white_remote_address=white_address,
        admin=is_admin,
        default_topic_perm=default_topic_perm,
        default_group_perm=default_group_perm,
        topic_perms=topic_perms,
        group_perms=group_perms,
    )
    return await admin.all(
        admin.change(
            f"put account {access_key}", each, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, header
        )
        for each in await admin.nodes(broker, cluster)
    )


async def delete(
    admin: AdminSession, *, access_key: str, broker: str | None = None, cluster: str | None = None
) -> list[Change]:
    """Delete an account at brokers."""
    header = DeleteAccountHeader(access_key=access_key)
    return await admin.all(
        admin.change(f"delete account {access_key}", each, RequestCode.DELETE_ACL_CONFIG, header)
        for each in await admin.nodes(broker, cluster)
    )


async def allow_addresses(
    admin: AdminSession,
    *,
    addresses: str,
    file: str | None = None,
    broker: str | None = None,
    cluster: str | None = None,
) -> list[Change]:
    """Set the addresses whose requests need no account."""
    header = WhiteAddressesHeader(global_white_addrs=addresses, acl_file_full_path=file or "")
    return await admin.all(
        admin.change(
            f"let through {addresses}", each, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, header
        )
        for each in await admin.nodes(broker, cluster)
    )


async def versions(
    admin: AdminSession, *, broker: str | None = None, cluster: str | None = None
) -> list[AclVersion]:
    """The version of the account configuration of each broker."""

    async def one(address: str) -> list[AclVersion]:
        answer = await admin.ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        reply = read_header(answer, AclVersionReplyHeader)
        by_file = (reply.all_acl_file_version or "{}").encode()
        files: dict[str | None, DataVersion] = dict(loads(by_file, dict[str, DataVersion]).items())
        files = files or {None: loads(reply.version.encode(), DataVersion)}
        return [
            AclVersion(
                reply.cluster_name,
                reply.broker_name,
                reply.broker_addr,
                path,
                version.counter,
                Time(version.timestamp),
            )
            for path, version in files.items()
        ]

    found = await admin.all(map(one, await admin.nodes(broker, cluster)))
    return [row for rows in found for row in rows]
