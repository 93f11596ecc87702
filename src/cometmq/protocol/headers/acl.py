"""Access control."""

from cometmq.protocol.headers.base import Header


class CreateAccountHeader(Header):
    """UPDATE_AND_CREATE_ACL_CONFIG."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAccountHeader(Header):
    """DELETE_ACL_CONFIG."""

    access_key: str


class AclVersionReplyHeader(Header, kw_only=True):
    """Of GET_BROKER_CLUSTER_ACL_INFO."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class WhiteAddressesHeader(Header):
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG."""

    global_white_addrs: str
    acl_file_full_path: str
