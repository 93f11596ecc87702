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
    """One row. `cases` are patterns of the test's cases, written `field: how it is spoiled`."""

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


_LISTED_GROUPS = (
    _CODE.PULL_MESSAGE, _CODE.UPDATE_CONSUMER_OFFSET, _CODE.CONSUMER_SEND_MSG_BACK,
    _CODE.DELETE_SUBSCRIPTIONGROUP, _CODE.CLONE_GROUP_OFFSET,
)  # fmt: skip

BROKER: tuple[Deviation, ...] = (
    _REFUSED_FIELD,
    _HEADER_TYPES,
    _NO_FIELDS,
    Deviation(
        when="the name of a group or topic has other characters than letters, digits and % | _ -, "
        "is empty, or is too long",
        apache="accepts it where it does not store messages under it",
        ours="code 1: names become folders and keys of tables",
        reason=Reason.SAFETY,
        codes=_LISTED_GROUPS,
        cases=_names("consumerGroup", "group", "groupName", "destGroup", "topic"),
        our_code=_ERROR,
    ),
    Deviation(
        when="maxMsgNums, maxNum or count is 2147483647",
        apache="an OutOfMemoryError; a count overflows to nothing",
        ours="returns what one answer can hold",
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
        when="a one-way request asks for messages",
        apache="answers it",
        ours="does not answer",
        reason=Reason.FAULT,
        codes=(_CODE.QUERY_MESSAGE, _CODE.VIEW_MESSAGE_BY_ID),
        cases=("flag: one-way",),
    ),
    Deviation(
        when="commitOrRollback says that the state is unknown",
        apache="never answers",
        ours="code 0",
        reason=Reason.FAULT,
        codes=(_CODE.END_TRANSACTION,),
        cases=("commitOrRollback: number 0",),
        our_code=0,
    ),
    Deviation(
        when="offset is inside of a message",
        apache="returns bytes that are no message",
        ours="code 1",
        reason=Reason.FAULT,
        codes=(_CODE.VIEW_MESSAGE_BY_ID,),
        cases=("offset: number 1", "offset: wrong '+1'"),
    ),
    Deviation(
        when="sysFlag says that a host is IPv6, which it is not",
        apache="stores a record that it cannot read: no consumer gets this message, or any other",
        ours="sets the flags by the hosts",
        reason=Reason.FAULT,
        codes=(_CODE.SEND_MESSAGE_V2,),
        cases=("f: bit 16", "f: bit 32"),
        our_code=0,
    ),
    Deviation(
        when="the properties of a message in a batch are above 32767 bytes with those of the batch",
        apache="stores a record that it cannot read: no consumer gets this message, or any other",
        ours="code 13",
        reason=Reason.FAULT,
        codes=(_CODE.SEND_BATCH_MESSAGE,),
        cases=("body: inner properties: too long",),
        our_code=ResponseCode.MESSAGE_ILLEGAL.value,
    ),
    Deviation(
        when="a send to a new topic is refused",
        apache="makes the topic all the same",
        ours="a refused request changes nothing",
        reason=Reason.SAFETY,
        codes=(_CODE.SEND_MESSAGE_V2,),
        cases=("c d: new topic *",),
    ),
    Deviation(
        when="a topic is deleted",
        apache="keeps the offsets of its groups: in a new topic of this name they skip messages",
        ours="deletes them too",
        reason=Reason.SAFETY,
        codes=(_CODE.DELETE_TOPIC_IN_BROKER,),
        cases=("*",),
    ),
    Deviation(
        when="the queue of a committed offset is unknown",
        apache="stores the offset: a late commit revives the offset of a deleted topic",
        ours="code 0, stores nothing",
        reason=Reason.SAFETY,
        codes=(_CODE.UPDATE_CONSUMER_OFFSET,),
        cases=("topic: *", "queueId: *"),
        our_code=0,
    ),
    Deviation(
        when="maxReconsumeTimes is below 0",
        apache="makes a dead letter of the message at its first failure",
        ours="retries without limit",
        reason=Reason.SAFETY,
        codes=(_CODE.CONSUMER_SEND_MSG_BACK,),
        cases=("maxReconsumeTimes: number -*",),
        our_code=0,
    ),
    Deviation(
        when="a queue is unknown",
        apache="locks it, without a limit of locks",
        ours="does not lock it",
        reason=Reason.BOUND,
        codes=(_CODE.LOCK_BATCH_MQ,),
        cases=("body: mqSet.0.*",),
        our_code=0,
    ),
    Deviation(
        when="a JSON value in the body is of another type than its field",
        apache="converts it, or takes null",
        ours="code 1, names the value",
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
        apache="a NullPointerException, or a member without this value",
        ours="goes on with its default",
        reason=Reason.FAULT,
        codes=(_CODE.HEART_BEAT, _CODE.LOCK_BATCH_MQ),
        cases=("body: * absent", "body: *=null", "body: *={}"),
        our_code=0,
    ),
    Deviation(
        when="the expression of a pull cannot be parsed, or is of an unknown type",
        apache="returns all messages",
        ours="code 23: a consumer does not get what it may not want",
        reason=Reason.SAFETY,
        codes=(_CODE.PULL_MESSAGE,),
        cases=("subscription: *", "expressionType: *"),
        our_code=ResponseCode.SUBSCRIPTION_PARSE_FAILED.value,
    ),
    Deviation(
        when="consumerGroup is unknown",
        apache="makes a group of this name",
        ours="makes none: a client that leaves needs no group",
        reason=Reason.FAULT,
        codes=(_CODE.UNREGISTER_CLIENT,),
        cases=("consumerGroup: *",),
        our_code=0,
    ),
    Deviation(
        when="the message is not one whose transaction was given up",
        apache="puts it among the half messages",
        ours="code 1",
        reason=Reason.SAFETY,
        codes=(_CODE.RESUME_CHECK_HALF_MESSAGE,),
        cases=("*",),
        our_code=_ERROR,
    ),
    Deviation(
        when="the body names settings that are unknown or may not be changed",
        apache="accepts them; paths and ports too (CVE-2023-33246)",
        ours="refuses, names the setting, changes nothing",
        reason=Reason.SAFETY,
        codes=(_CODE.UPDATE_BROKER_CONFIG,),
        cases=("body: *",),
    ),
    Deviation(
        when="offsets of a group are reset",
        apache="leaves that to its members, and refuses if none is online",
        ours="moves the stored offsets as well: a member that does not listen would undo it",
        reason=Reason.SAFETY,
        codes=(_CODE.INVOKE_BROKER_TO_RESET_OFFSET,),
        cases=("*",),
    ),
    Deviation(
        when="srcGroup is unknown",
        apache="code 0, and nothing is cloned",
        ours="code 1: a misspelled group is reported",
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
        ours="returns none, as for any index before the first",
        reason=Reason.FAULT,
        codes=(_CODE.QUERY_CONSUME_QUEUE,),
        cases=("index: number -9223372036854775808",),
        our_code=0,
    ),
    Deviation(
        when="access control is asked for",
        apache="code 209 or an exception without aclEnable",
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
