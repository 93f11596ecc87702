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


_REFUSED_FIELD = Deviation(
    when="a required field is absent or null, or a field is not of its type",
    apache="goes on with null, 0 or false; an exception where that is needed",
    ours="code 1, names the field",
    reason=Reason.SAFETY,
    cases=(
        "*: absent", "*: null", "*: empty", "*: wrong*", ": without any field",
        "port: second, no field",
    ),
    our_code=_ERROR,
)  # fmt: skip
_HEADER_TYPES = Deviation(
    when="language or remark of a command is a number",
    apache="converts it",
    ours="the header cannot be read: the connection closes",
    reason=Reason.SAFETY,
    cases=("language: [0-9]*", "remark: [0-9]*"),
)
_NO_FIELDS = Deviation(
    when="extFields is no object",
    apache="an exception, and the connection closes",
    ours="code 1",
    reason=Reason.FAULT,
    cases=("extFields: [[]*", "extFields: 'x'", "extFields: 5"),
    our_code=_ERROR,
)

NAMESRV: tuple[Deviation, ...] = (
    _REFUSED_FIELD,
    _HEADER_TYPES,
    _NO_FIELDS,
    Deviation(
        when="the code is unknown",
        apache="never answers",
        ours="code 3",
        reason=Reason.FAULT,
        cases=("code: unknown",),
        our_code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED.value,
    ),
    Deviation(
        when="a JSON value in the body is of another type than its field",
        apache="converts it, or takes null",
        ours="code 1, names the value",
        reason=Reason.SAFETY,
        codes=(_CODE.REGISTER_BROKER, _CODE.QUERY_DATA_VERSION),
        cases=("body: *",),
        our_code=_ERROR,
    ),
    Deviation(
        when="a topic in the body is null",
        apache="a NullPointerException",
        ours="leaves the topic out",
        reason=Reason.FAULT,
        codes=(_CODE.REGISTER_BROKER,),
        cases=("body: *=null",),
        our_code=0,
    ),
    Deviation(
        when="brokerAddr is not the address that the broker registered",
        apache="removes the broker by its name and id",
        ours="keeps it: another process must not remove a running broker",
        reason=Reason.SAFETY,
        codes=(_CODE.UNREGISTER_BROKER,),
        cases=("brokerAddr: *",),
    ),
    Deviation(
        when="clusterName is not the cluster of the broker",
        apache="removes the broker, and its cluster still lists it",
        ours="removes the broker from its cluster too",
        reason=Reason.FAULT,
        codes=(_CODE.UNREGISTER_BROKER,),
        cases=("clusterName: *",),
        our_code=0,
    ),
    Deviation(
        when="the body names settings that are unknown or may not be changed",
        apache="accepts them; paths and ports too (CVE-2023-37582)",
        ours="refuses, names the setting, changes nothing",
        reason=Reason.SAFETY,
        codes=(_CODE.UPDATE_NAMESRV_CONFIG,),
        cases=("body: *",),
    ),
)

_BAD_NAMES = ("empty", "text ' '", "text 'a/b'", "text '../x'", "text 'T@G'", "text 'a\x01*")


def _names(*fields: str) -> tuple[str, ...]:
    hows = (*_BAD_NAMES, "text of 300 characters")
    return tuple(f"{field}: {how}" for field in fields for how in hows)


_SENDS = (_CODE.SEND_MESSAGE, _CODE.SEND_MESSAGE_V2, _CODE.SEND_BATCH_MESSAGE)
_REPLIES = (_CODE.SEND_REPLY_MESSAGE, _CODE.SEND_REPLY_MESSAGE_V2)

BROKER: tuple[Deviation, ...] = ()
