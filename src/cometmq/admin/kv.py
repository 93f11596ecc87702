"""The key-value configuration of the name servers."""

from cometmq.admin.rows import Change
from cometmq.admin.session import AdminSession
from cometmq.errors import Refused
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.namesrv import KvHeader, KvReplyHeader, PutKvHeader


async def update(admin: AdminSession, *, namespace: str, key: str, value: str) -> list[Change]:
    """Set a value at every name server."""
    header = PutKvHeader(namespace=namespace, key=key, value=value)
    what = f"set {namespace} {key} = {value}"
    return await admin.change_servers(what, RequestCode.PUT_KV_CONFIG, header)


async def delete(admin: AdminSession, *, namespace: str, key: str) -> list[Change]:
    """Delete a value at every name server."""
    header = KvHeader(namespace=namespace, key=key)
    what = f"delete {namespace} {key}"
    return await admin.change_servers(what, RequestCode.DELETE_KV_CONFIG, header)


async def get(admin: AdminSession, namespace: str, key: str) -> str | None:
    """A value, or None if the key is unknown."""
    header = KvHeader(namespace=namespace, key=key)
    try:
        response = await admin.ask_any_server(RequestCode.GET_KV_CONFIG, header)
    except Refused as refused:
        if refused.code != ResponseCode.QUERY_NOT_FOUND:
            raise
        return None
    return read_header(response, KvReplyHeader).value
