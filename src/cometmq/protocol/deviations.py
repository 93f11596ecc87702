"""Where our servers deliberately answer otherwise than Apache RocketMQ 4.9.7, and why.

Everything else is the same: a test sends every request code with every field spoiled in turn to
both, and fails for a difference that is not listed here, and for a row that is no longer true
(tests/compat/differential). `scripts/reference.py` writes the rows into docs/compat.md.
"""

from enum import Enum
from fnmatch import fnmatchcase

import msgspec

from cometmq.protocol.codes import RequestCode, ResponseCode

_CODE = RequestCode
_ERROR = ResponseCode.SYSTEM_ERROR.value


class Reason(Enum):
    """Why a deviation is kept."""

    SAFETY = "safety"  # to do the same would lose, damage or expose something
    FAULT = "fault in Apache's code"  # an exception, a wrong answer, or no answer at all
    BOUND = "unbounded resource"
    LATER = "not supported yet"


class Deviation(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `cases` are patterns of the test's cases, each written `field: how it is spoiled`."""

    when: str
    apache: str
    ours: str
    reason: Reason
    cases: tuple[str, ...]
    codes: tuple[RequestCode, ...] = ()  # all, if empty
    our_code: int | None = None  # the row covers only answers of ours with this code

    def covers(self, code: int, case: str, our_code: int | None) -> bool:
        """Is this the difference that the row describes?"""
        return (
            (not self.codes or code in self.codes)
            and self.our_code in (None, our_code)
            and any(fnmatchcase(case, pattern) for pattern in self.cases)
        )


_BAD_NAMES = ("empty", "text ' '", "text 'a/b'", "text '../x'", "text 'T@G'", "text 'a\x01*")


def _names(*fields: str) -> tuple[str, ...]:
    hows = (*_BAD_NAMES, "text of 300 characters")
    return tuple(f"{field}: {how}" for field in fields for how in hows)


_SENDS = (_CODE.SEND_MESSAGE, _CODE.SEND_MESSAGE_V2, _CODE.SEND_BATCH_MESSAGE)
_REPLIES = (_CODE.SEND_REPLY_MESSAGE, _CODE.SEND_REPLY_MESSAGE_V2)

BROKER: tuple[Deviation, ...] = ()
NAMESRV: tuple[Deviation, ...] = ()
