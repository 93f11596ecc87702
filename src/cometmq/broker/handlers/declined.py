"""Requests that a broker of 4.9 answers and this one refuses: accounts and filter classes."""

from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers.base import Header
from cometmq.remoting.dispatch import Call, Reply


def access_control(call: Call, ask: Header) -> Reply:
    """Codes 50 to 54. A reply of success would claim a protection that does not exist."""
    raise _not_supported(call, "this version has no access control, and takes no aclEnable=true")


def filter_classes(call: Call, ask: Header) -> Reply:
    raise _not_supported(call, "there are no filter classes; use tags, or SQL92")


def _not_supported(call: Call, reason: str) -> Refused:
    return Refused(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        f"request type {call.command.code} not supported: {reason}",
    )
