"""Turns a response that reports an error into an exception."""

from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.command import Command


def refusal_of(response: Command, who: str) -> Refused:
    """The exception for an error response of the server `who`."""
    try:
        name = ResponseCode(response.code).name
    except ValueError:
        name = f"code {response.code}"
    reason = " ".join((response.remark or "no reason given").split())
    return Refused(response.code, f"{who} answered {name}: {reason}")
