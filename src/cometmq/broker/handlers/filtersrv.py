"""Filter classes, which nobody runs any more: their requests are known and declined."""

from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers.base import Header
from cometmq.remoting.dispatch import Call, Reply


def decline(call: Call, ask: Header) -> Reply:
    """REGISTER_FILTER_SERVER and REGISTER_MESSAGE_FILTER_CLASS."""
    raise Refused(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        f"request type {call.command.code} not supported: there are no filter classes; use tags, "
        "or SQL92",
    )
