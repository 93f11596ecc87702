"""The flags of commands, messages, pulls, permissions and topics."""

from enum import IntFlag


class CommandFlag(IntFlag):
    """`flag` of a command. A one-way request gets no response."""

    RESPONSE = 1
    ONEWAY = 2


class MessageFlag(IntFlag):
    """`sysFlag` of a message, on the wire and on disk."""

    COMPRESSED = 1
    MULTI_TAGS = 1 << 1
    PREPARED = 1 << 2  # a half message
    COMMIT = 1 << 3
    ROLLBACK = PREPARED | COMMIT  # PREPARED and COMMIT together
    BORN_HOST_V6 = 1 << 4
    STORE_HOST_V6 = 1 << 5
    NEED_UNWRAP = 1 << 6
    INNER_BATCH = 1 << 7
    LZ4 = 1 << 8
    ZSTD = 2 << 8
    ZLIB = 3 << 8
    COMPRESSION = 7 << 8  # mask of the three bits above; 0 also means zlib
    TRANSACTION = PREPARED | COMMIT


class PullFlag(IntFlag):
    """`sysFlag` of a pull request."""

    COMMIT_OFFSET = 1
    SUSPEND = 1 << 1
    SUBSCRIPTION = 1 << 2
    CLASS_FILTER = 1 << 3
    LITE_PULL = 1 << 4


class Perm(IntFlag):
    """The permissions of a topic or of a broker."""

    INHERIT = 1
    WRITE = 1 << 1
    READ = 1 << 2
    PRIORITY = 1 << 3


class TopicFlag(IntFlag):
    """`topicSysFlag` of a topic."""

    UNIT = 1
    UNIT_SUB = 1 << 1
