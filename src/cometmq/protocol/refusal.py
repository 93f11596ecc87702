"""What a response that is no success means to who asked."""

from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.command import Command


def refusal_of(response: Command, who: str) -> Refused:
    """One line: who says what, and why."""
    try:
        name = ResponseCode(response.code).name
    except ValueError:
        name = f"code {response.code}"
    reason = " ".join((response.remark or "no reason given").split())
    return Refused(response.code, f"{who} says {name}: {reason}")
