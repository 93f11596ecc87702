"""The deliberate deviations of these servers from Apache RocketMQ 4.9.7, and their reasons.

A test sends every request code, with every field in turn missing, malformed or out of range, to
both servers (tests/compat/differential). It fails for a difference that is not listed here, and
for a row without a difference. `scripts/reference.py` writes the rows into docs/compat.md.
"""

from enum import Enum
from fnmatch import fnmatchcase

import msgspec

from cometmq.protocol.codes import RequestCode, ResponseCode

_CODE = RequestCode
_ERROR = ResponseCode.SYSTEM_ERROR.value
_WITHOUT_RESPONSE = ("flag: one-way", "flag: response")


class Reason(Enum):
    """The reason for a deviation."""

    SAFETY = "safety"  # Apache's behavior loses, damages or exposes something
    FAULT = "fault in Apache's code"  # an exception, a wrong response, or no response
    BOUND = "unbounded resource"
    LATER = "not supported yet"


class Deviation(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `cases` are patterns of the test's cases: `field: how its value is changed`."""

    when: str
    apache: str
    ours: str
    reason: Reason
    cases: tuple[str, ...]
    codes: tuple[RequestCode, ...] = ()  # empty: all codes
    our_code: int | None = None  # the code of our response; None: any

    def covers(self, code: int, case: str, our_code: int | None) -> bool:
        """Does the row describe this difference? `our_code` is None if we send no response."""
        return (
            (not self.codes or code in self.codes)
            and (self.our_code in (None, our_code) or case in _WITHOUT_RESPONSE)
            and any(fnmatchcase(case, pattern) for pattern in self.cases)
        )


_REFUSED_FIELD = Deviation(
    when="a required field is absent or null, or a field is not of its type",
    apache="continues with null, 0 or false; fails with an exception where it needs the value",
    ours="code 1 with the name of the field",
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
    ours="closes the connection: the header cannot be decoded",
    reason=Reason.SAFETY,
    cases=("language: [0-9]*", "remark: [0-9]*"),
)
_NO_FIELDS = Deviation(
    when="extFields is not an object",
    apache="fails with an exception and closes the connection",
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
        apache="never responds",
        ours="code 3",
        reason=Reason.FAULT,
        cases=("code: unknown",),
        our_code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED.value,
    ),
    Deviation(
        when="a JSON value in the body does not have the type of its field",
        apache="converts it, or uses null",
        ours="code 1 with the name of the value",
        reason=Reason.SAFETY,
        codes=(_CODE.REGISTER_BROKER, _CODE.QUERY_DATA_VERSION),
        cases=("body: *",),
        our_code=_ERROR,
    ),
    Deviation(
        when="a topic in the body is null",
        apache="fails with a NullPointerException",
        ours="omits the topic",
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
        apache="removes the broker, but not from its cluster",
        ours="removes the broker also from its cluster",
        reason=Reason.FAULT,
        codes=(_CODE.UNREGISTER_BROKER,),
        cases=("clusterName: *",),
        our_code=0,
    ),
    Deviation(
        when="the body contains an unknown setting or a bad value",
        apache="ignores it and reports success",
        ours="code 1 with the name of the setting; changes nothing",
        reason=Reason.SAFETY,
        codes=(_CODE.UPDATE_NAMESRV_CONFIG,),
        cases=("body: *",),
        our_code=_ERROR,
    ),
    Deviation(
        when="the body contains a setting that a request must not change",
        apache="changes it, including paths and ports (CVE-2023-37582)",
        ours="code 16 with the name of the setting; changes nothing",
        reason=Reason.SAFETY,
        codes=(_CODE.UPDATE_NAMESRV_CONFIG,),
        cases=("body: protected setting",),
        our_code=ResponseCode.NO_PERMISSION.value,
    ),
)

_BAD_NAMES = ("empty", "text ' '", "text 'a/b'", "text '../x'", "text 'T@G'", "text 'a\x01*")


def _names(*fields: str) -> tuple[str, ...]:
    hows = (*_BAD_NAMES, "text of 300 characters")
    return tuple(f"{field}: {how}" for field in fields for how in hows)


_LISTED_GROUPS = (
    _CODE.PULL_MESSAGE, _CODE.UPDATE_CONSUMER_OFFSET, _CODE.CONSUMER_SEND_MSG_BACK,
    _CODE.DELETE_SUBSCRIPTIONGROUP, _CODE.CLONE_GROUP_OFFSET,
)  # fmt: skip

BROKER: tuple[Deviation, ...] = (
    _REFUSED_FIELD,
    _HEADER_TYPES,
    _NO_FIELDS,
    Deviation(
        when="the name of a group or topic is empty or too long, or has other characters than "
        "letters, digits and % | _ -",
        apache="accepts it unless it stores messages under that name",
        ours="code 1: names become folder names and keys of tables",
        reason=Reason.SAFETY,
        codes=_LISTED_GROUPS,
        cases=_names("consumerGroup", "group", "groupName", "destGroup", "topic"),
        our_code=_ERROR,
    ),
    Deviation(
        when="maxMsgNums, maxNum or count is 2147483647",
        apache="fails with an OutOfMemoryError, or a count overflows and nothing is returned",
        ours="returns as much as fits in one response",
        reason=Reason.FAULT,
        codes=(_CODE.PULL_MESSAGE, _CODE.QUERY_MESSAGE, _CODE.QUERY_CONSUME_QUEUE),
        cases=("*: number 2147483647",),
        our_code=0,
    ),
    Deviation(
        when="readQueueNums or writeQueueNums is below 0 or above 65536",
        apache="accepts it",
        ours="code 1",
        reason=Reason.BOUND,
        codes=(_CODE.UPDATE_AND_CREATE_TOPIC,),
        cases=("*QueueNums: number *",),
        our_code=_ERROR,
    ),
    Deviation(
        when="a query for messages is one-way",
        apache="sends a response",
        ours="sends no response",
        reason=Reason.FAULT,
        codes=(_CODE.QUERY_MESSAGE, _CODE.VIEW_MESSAGE_BY_ID),
        cases=("flag: one-way",),
    ),
    Deviation(
        when="commitOrRollback is 0 (unknown)",
        apache="never responds",
        ours="code 0",
        reason=Reason.FAULT,
        codes=(_CODE.END_TRANSACTION,),
        cases=("commitOrRollback: number 0",),
        our_code=0,
    ),
    Deviation(
        when="offset is inside a message",
        apache="returns bytes that are not a message",
        ours="code 1",
        reason=Reason.FAULT,
        codes=(_CODE.VIEW_MESSAGE_BY_ID,),
        cases=("offset: number 1", "offset: wrong '+1'"),
    ),
    Deviation(
        when="sysFlag says IPv6 for an IPv4 host",
        apache="stores an unreadable record: no consumer gets this or any later message",
        ours="sets the flags from the hosts",
        reason=Reason.FAULT,
        codes=(_CODE.SEND_MESSAGE_V2,),
        cases=("f: bit 16", "f: bit 32"),
        our_code=0,
    ),
    Deviation(
        when="the properties of a message and of its batch together exceed 32767 bytes",
        apache="stores an unreadable record: no consumer gets this or any later message",
        ours="code 13",
        reason=Reason.FAULT,
        codes=(_CODE.SEND_BATCH_MESSAGE,),
        cases=("body: inner properties: too long",),
        our_code=ResponseCode.MESSAGE_ILLEGAL.value,
    ),
    Deviation(
        when="a send to a new topic is refused",
        apache="creates the topic anyway",
        ours="a refused request changes nothing",
        reason=Reason.SAFETY,
        codes=(_CODE.SEND_MESSAGE_V2,),
        cases=("c d: new topic *",),
    ),
    Deviation(
        when="a topic is deleted",
        apache="keeps its consumer offsets: groups skip messages of a new topic with this name",
        ours="code 0, deletes the consumer offsets, too",
        reason=Reason.SAFETY,
        codes=(_CODE.DELETE_TOPIC_IN_BROKER,),
        cases=("*",),
        our_code=0,
    ),
    Deviation(
        when="the queue of a committed offset is unknown",
        apache="stores the offset: a late commit restores the offset of a deleted topic",
        ours="code 0, stores nothing",
        reason=Reason.SAFETY,
        codes=(_CODE.UPDATE_CONSUMER_OFFSET,),
        cases=("topic: *", "queueId: *"),
        our_code=0,
    ),
    Deviation(
        when="maxReconsumeTimes is below 0",
        apache="makes the message a dead letter at its first failure",
        ours="retries without limit",
        reason=Reason.SAFETY,
        codes=(_CODE.CONSUMER_SEND_MSG_BACK,),
        cases=("maxReconsumeTimes: number -*",),
        our_code=0,
    ),
    Deviation(
        when="a queue is unknown",
        apache="locks it; the number of locks is not limited",
        ours="does not lock it",
        reason=Reason.BOUND,
        codes=(_CODE.LOCK_BATCH_MQ,),
        cases=("body: mqSet.0.*",),
        our_code=0,
    ),
    Deviation(
        when="a JSON value in the body does not have the type of its field",
        apache="converts it, or uses null",
        ours="code 1 with the name of the value",
        reason=Reason.SAFETY,
        codes=(
            _CODE.HEART_BEAT, _CODE.LOCK_BATCH_MQ, _CODE.UNLOCK_BATCH_MQ,
            _CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, _CODE.CHECK_CLIENT_CONFIG,
        ),
        cases=("body: *",),
        our_code=_ERROR,
    ),
    Deviation(
        when="a part of the body is absent or null",
        apache="fails with a NullPointerException, or adds a member without this value",
        ours="uses the default",
        reason=Reason.FAULT,
        codes=(_CODE.HEART_BEAT, _CODE.LOCK_BATCH_MQ),
        cases=("body: * absent", "body: *=null", "body: *={}"),
        our_code=0,
    ),
    Deviation(
        when="the expression of a pull is invalid or has an unknown type",
        apache="returns all messages",
        ours="code 23: the consumer might not want all messages",
        reason=Reason.SAFETY,
        codes=(_CODE.PULL_MESSAGE,),
        cases=("subscription: *", "expressionType: *"),
        our_code=ResponseCode.SUBSCRIPTION_PARSE_FAILED.value,
    ),
    Deviation(
        when="consumerGroup is unknown",
        apache="creates a group with this name",
        ours="creates no group for a client that leaves",
        reason=Reason.FAULT,
        codes=(_CODE.UNREGISTER_CLIENT,),
        cases=("consumerGroup: *",),
        our_code=0,
    ),
    Deviation(
        when="the message is not a discarded half message",
        apache="stores it as a half message",
        ours="code 1",
        reason=Reason.SAFETY,
        codes=(_CODE.RESUME_CHECK_HALF_MESSAGE,),
        cases=("*",),
        our_code=_ERROR,
    ),
    Deviation(
        when="the body contains an unknown setting or a bad value",
        apache="ignores it and reports success",
        ours="code 1 with the name of the setting; changes nothing",
        reason=Reason.SAFETY,
        codes=(_CODE.UPDATE_BROKER_CONFIG,),
        cases=("body: *",),
        our_code=_ERROR,
    ),
    Deviation(
        when="the body contains a setting that a request must not change",
        apache="changes it, including paths and ports (CVE-2023-33246)",
        ours="code 16 with the name of the setting; changes nothing",
        reason=Reason.SAFETY,
        codes=(_CODE.UPDATE_BROKER_CONFIG,),
        cases=("body: protected setting",),
        our_code=ResponseCode.NO_PERMISSION.value,
    ),
    Deviation(
        when="the offsets of a group are reset",
        apache="only notifies its members, and refuses if none is online",
        ours="code 0, also changes the stored offsets, which a failing member would restore",
        reason=Reason.SAFETY,
        codes=(_CODE.INVOKE_BROKER_TO_RESET_OFFSET,),
        cases=("*",),
        our_code=0,
    ),
    Deviation(
        when="srcGroup is unknown",
        apache="code 0, clones nothing",
        ours="code 1: reports a misspelled group",
        reason=Reason.SAFETY,
        codes=(_CODE.CLONE_GROUP_OFFSET,),
        cases=("srcGroup: *",),
        our_code=_ERROR,
    ),
    Deviation(
        when="topic is absent or empty, which means all topics of the group",
        apache="clones the offsets of a topic without a name",
        ours="clones the offsets of all topics",
        reason=Reason.FAULT,
        codes=(_CODE.CLONE_GROUP_OFFSET,),
        cases=("topic: absent", "topic: empty", "topic: null", "topic: text ' '"),
        our_code=0,
    ),
    Deviation(
        when="index is -9223372036854775808",
        apache="overflows, and returns the first units",
        ours="returns none, as for every index before the first",
        reason=Reason.FAULT,
        codes=(_CODE.QUERY_CONSUME_QUEUE,),
        cases=("index: number -9223372036854775808",),
        our_code=0,
    ),
    Deviation(
        when="the request concerns access control",
        apache="without aclEnable, code 209 or an exception",
        ours="code 3",
        reason=Reason.LATER,
        codes=(
            _CODE.UPDATE_AND_CREATE_ACL_CONFIG, _CODE.DELETE_ACL_CONFIG,
            _CODE.GET_BROKER_CLUSTER_ACL_INFO, _CODE.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
            _CODE.GET_BROKER_CLUSTER_ACL_CONFIG,
        ),
        cases=("*",),
    ),
)  # fmt: skip
