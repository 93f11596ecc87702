"""Headers of requests for access control."""

from cometmq.protocol.headers.base import Header


class CreateAccountHeader(Header):
    """The fields of a UPDATE_AND_CREATE_ACL_CONFIG request."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAccountHeader(Header):
    """The fields of a DELETE_ACL_CONFIG request."""

    access_key: str


class AclVersionReplyHeader(Header, kw_only=True):
    """The fields of the response to GET_BROKER_CLUSTER_ACL_INFO."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class WhiteAddressesHeader(Header):
    """The fields of a UPDATE_GLOBAL_WHITE_ADDRS_CONFIG request."""

    global_white_addrs: str
    acl_file_full_path: str
