"""Accounts, which a broker does not have yet: their requests are known and declined."""

from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers.base import Header
from cometmq.remoting.dispatch import Call, Reply


def decline(call: Call, ask: Header) -> Reply:
    """The five codes of access control: to answer success would let someone feel safe."""
    raise Refused(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        f"request type {call.command.code} not supported: this version has no access control, and "
        "takes no aclEnable=true",
    )
