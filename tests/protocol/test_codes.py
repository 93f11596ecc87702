"""Every number and name of the protocol is the one that Apache's constants have."""

import pytest

from cometmq.protocol import codes, flags, limits, names
from cometmq.protocol.bodies import consumer, heartbeat
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.flags import MessageFlag, Perm, PullFlag, TopicFlag
from cometmq.protocol.records import properties
from protocol.golden import value_of


def members(enum):
    return {name: int(member) for name, member in enum.__members__.items()}


def test_request_codes():
    assert members(RequestCode) == value_of("codes", "RequestCode")


def test_response_codes():
    assert members(ResponseCode) == value_of("codes", "ResponseCode")


def test_languages():
    assert value_of("codes", "LanguageCode") == codes.LANGUAGE_NUMBERS
    assert codes.LANGUAGE in codes.LANGUAGE_NUMBERS
    assert codes.LANGUAGE_UNKNOWN in codes.LANGUAGE_NUMBERS


def test_versions():
    versions = value_of("codes", "MQVersion")
    assert versions["CURRENT_VERSION"] == codes.VERSION
    assert versions["V4_9_4"] == codes.VERSION_4_9_4
    assert versions["V3_0_11"] == codes.VERSION_3_0_11


@pytest.mark.parametrize(
    ("enum", "constants", "spelled"),
    [
        (
            MessageFlag,
            "MessageSysFlag",
            {
                "COMPRESSED_FLAG": "COMPRESSED",
                "MULTI_TAGS_FLAG": "MULTI_TAGS",
                "TRANSACTION_PREPARED_TYPE": "PREPARED",
                "TRANSACTION_COMMIT_TYPE": "COMMIT",
                "TRANSACTION_ROLLBACK_TYPE": "ROLLBACK",
                "BORNHOST_V6_FLAG": "BORN_HOST_V6",
                "STOREHOSTADDRESS_V6_FLAG": "STORE_HOST_V6",
                "NEED_UNWRAP_FLAG": "NEED_UNWRAP",
                "INNER_BATCH_FLAG": "INNER_BATCH",
                "COMPRESSION_LZ4_TYPE": "LZ4",
                "COMPRESSION_ZSTD_TYPE": "ZSTD",
                "COMPRESSION_ZLIB_TYPE": "ZLIB",
                "COMPRESSION_TYPE_COMPARATOR": "COMPRESSION",
            },
        ),
        (
            PullFlag,
            "PullSysFlag",
            {
                "FLAG_COMMIT_OFFSET": "COMMIT_OFFSET",
                "FLAG_SUSPEND": "SUSPEND",
                "FLAG_SUBSCRIPTION": "SUBSCRIPTION",
                "FLAG_CLASS_FILTER": "CLASS_FILTER",
                "FLAG_LITE_PULL_MESSAGE": "LITE_PULL",
            },
        ),
        (
            Perm,
            "PermName",
            {
                "PERM_PRIORITY": "PRIORITY",
                "PERM_READ": "READ",
                "PERM_WRITE": "WRITE",
                "PERM_INHERIT": "INHERIT",
            },
        ),
        (TopicFlag, "TopicSysFlag", {"FLAG_UNIT": "UNIT", "FLAG_UNIT_SUB": "UNIT_SUB"}),
    ],
)
def test_flags(enum, constants, spelled):
    theirs = value_of("codes", constants)
    zero = {"TRANSACTION_NOT_TYPE"}  # the absence of a bit is no bit
    assert {spelled[name]: bits for name, bits in theirs.items() if name not in zero} == {
        name: bits for name, bits in members(enum).items() if name != "TRANSACTION"
    }


def test_the_transaction_mask_covers_its_types():
    assert flags.MessageFlag.TRANSACTION == 12


@pytest.mark.parametrize(
    ("enum", "name"),
    [
        (heartbeat.ConsumeFrom, "ConsumeFromWhere.ordinals"),
        (heartbeat.ConsumeType, "ConsumeType.ordinals"),
        (heartbeat.MessageModel, "MessageModel.ordinals"),
        (consumer.ConsumeResult, "CMResult.ordinals"),
    ],
)
def test_enums_by_name_and_ordinal(enum, name):
    assert {member.value: rank for rank, member in enumerate(enum)} == value_of("codes", name)


def test_property_keys():
    constants = dict(value_of("codes", "MessageConst"))
    assert constants.pop("KEY_SEPARATOR") == properties.KEY_SEPARATOR
    assert set(constants.values()) == properties.RESERVED


def test_topics():
    topics = value_of("codes", "TopicValidator")
    assert topics["SYSTEM_TOPIC_PREFIX"] == names.SYSTEM_TOPIC_PREFIX
    assert topics["TOPIC_MAX_LENGTH"] == limits.TOPIC_LENGTH_MAX
    assert set(value_of("codes", "SystemTopics")) == names.SYSTEM_TOPICS
    assert set(value_of("codes", "NotAllowedSendTopics")) == names.CLOSED_TOPICS
    ours = {
        "AUTO_CREATE_TOPIC_KEY_TOPIC": names.DEFAULT_TOPIC,
        "RMQ_SYS_SCHEDULE_TOPIC": names.SCHEDULE_TOPIC,
        "RMQ_SYS_BENCHMARK_TOPIC": names.BENCHMARK_TOPIC,
        "RMQ_SYS_TRANS_HALF_TOPIC": names.HALF_TOPIC,
        "RMQ_SYS_TRACE_TOPIC": names.TRACE_TOPIC,
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": names.OP_HALF_TOPIC,
        "RMQ_SYS_TRANS_CHECK_MAX_TIME_TOPIC": names.CHECKED_TOO_OFTEN_TOPIC,
        "RMQ_SYS_SELF_TEST_TOPIC": names.SELF_TEST_TOPIC,
        "RMQ_SYS_OFFSET_MOVED_EVENT": names.OFFSET_MOVED_TOPIC,
    }
    assert {name: topics[name] for name in ours} == ours


def test_groups_and_prefixes():
    constants = value_of("codes", "MixAll")
    groups = {text for name, text in constants.items() if name.endswith("_GROUP")}
    assert groups | {constants["CID_SYS_RMQ_TRANS"]} == names.BUILT_IN_GROUPS
    assert constants["CID_RMQ_SYS_PREFIX"] == names.SYSTEM_GROUP_PREFIX
    assert constants["RETRY_GROUP_TOPIC_PREFIX"] == names.RETRY_PREFIX
    assert constants["DLQ_GROUP_TOPIC_PREFIX"] == names.DLQ_PREFIX
    assert constants["REPLY_TOPIC_POSTFIX"] == names.REPLY_TOPIC_POSTFIX
    assert value_of("codes", "NamespaceUtil")["NAMESPACE_SEPARATOR"] == names.NAMESPACE_SEPARATOR
