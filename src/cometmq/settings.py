"""Settings: RocketMQ's names in files and on the command line, typed structs inside.

A settings struct lists what it knows; a description and bounds stand with each field. A key that
nobody knows is refused with the nearest known one: in the original a typing error goes unnoticed.
"""

import logging
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar, cast, dataclass_transform

import msgspec

from cometmq.errors import BadSetting
from cometmq.protocol.java import format_properties, java_text, parse_properties
from cometmq.protocol.spelling import camel

log = logging.getLogger(__name__)


@dataclass_transform(frozen_default=True, kw_only_default=True)  # so that mypy sees it inherited
class Settings(msgspec.Struct, frozen=True, kw_only=True, rename=camel()):
    """Base of each process's settings."""


S = TypeVar("S", bound=Settings)

SECRET = frozenset({"tls.server.keyPassword"})  # never shown, in no log, reply or listing

# Keys of the original that mean nothing here: there are no thread pools, no native selectors, no
# direct memory, and one loop that needs no lock. Taken, and named once in the log.
MEANINGLESS = frozenset(
    {
        "serverWorkerThreads", "serverCallbackExecutorThreads", "serverSelectorThreads",
        "serverSocketSndBufSize", "serverSocketRcvBufSize", "serverPooledByteBufAllocatorEnable",
        "useEpollNativeSelector", "writeBufferHighWaterMark", "writeBufferLowWaterMark",
        "serverNettyWorkerGroupEnable", "rocketmqHome", "configBlackList", "clientWorkerThreads",
        "clientCallbackExecutorThreads", "clientOnewaySemaphoreValue",
        "clientAsyncSemaphoreValue", "connectTimeoutMillis", "channelNotActiveInterval",
        "clientChannelMaxIdleTimeSeconds", "clientSocketSndBufSize", "clientSocketRcvBufSize",
        "clientPooledByteBufAllocatorEnable", "clientCloseSocketIfTimeout", "useTLS",
        "messageStorePlugIn", "sendMessageThreadPoolNums", "putMessageFutureThreadPoolNums",
        "pullMessageThreadPoolNums", "processReplyMessageThreadPoolNums",
        "queryMessageThreadPoolNums", "adminBrokerThreadPoolNums", "clientManageThreadPoolNums",
        "consumerManageThreadPoolNums", "heartbeatThreadPoolNums", "endTransactionThreadPoolNums",
        "putThreadPoolQueueCapacity", "flushConsumerOffsetHistoryInterval",
        "fetchNamesrvAddrByAddressServer", "filterServerNums", "highSpeedMode",
        "commercialEnable", "commercialTimerCount", "commercialTransCount", "commercialBigCount",
        "commercialBaseCount", "transferMsgByHeap", "maxDelayTime", "enableDetailStat",
        "autoDeleteUnusedStats", "isolateLogEnable", "storePathDLedgerCommitLog",
        "readOnlyCommitLogStorePaths", "commitIntervalCommitLog",
        "useReentrantLockWhenPutMessage", "flushCommitLogTimed", "deleteCommitLogFilesInterval",
        "deleteConsumeQueueFilesInterval", "destroyMapedFileIntervalForcibly",
        "redeleteHangedFileInterval", "putMsgIndexHightWater", "checkCRCOnRecover",
        "commitCommitLogLeastPages", "flushConsumeQueueLeastPages",
        "commitCommitLogThoroughInterval",
        "flushConsumeQueueThoroughInterval", "messageIndexSafe",
        "haListenPort", "haSendHeartbeatInterval", "haHousekeepingInterval",
        "haTransferBatchSize", "haMasterAddress", "haSlaveFallbehindMax", "slaveTimeout",
        "offsetCheckInSlave", "debugLockEnable", "duplicationEnable", "diskFallRecorded",
        "transientStorePoolEnable", "transientStorePoolSize",
        "fastFailIfNoBufferInStorePool", "enableDLegerCommitLog", "dLegerGroup", "dLegerPeers",
        "dLegerSelfId", "preferredLeaderId", "isEnableBatchPush",
        "enableLmq", "enableMultiDispatch", "maxLmqConsumeQueueNum", "enableScheduleAsyncDeliver",
        "scheduleAsyncDeliverMaxPendingLimit", "scheduleAsyncDeliverMaxResendNum2Blocked",
        # In many a file, and without a meaning in 4.9 too.
        "storePathConsumeQueue", "storePathIndex", "abortFile", "storeCheckpoint",
        "mapedFileSizeCommitLog", "mapedFileSizeConsumeQueue",
        # Of the original's sample file for a broker of traces: it knows it no more than we do.
        "autoTraceBrokerEnable",
        # Nothing waits in a queue but sends; and the bloom filter knows its own size, as there.
        "bitMapLengthConsumeQueueExt", "disableConsumeIfConsumerReadSlowly",
        "consumerFallbehindThreshold", "waitTimeMillsInPullQueue",
        "waitTimeMillsInHeartbeatQueue", "waitTimeMillsInTransactionQueue",
    }
)  # fmt: skip

# Those that promise what is not here, and the value with which they promise nothing: to start as
# if nobody had asked would lose messages, or hide them.
_PROMISES = {
    "enableDLegerCommitLog": "false",
    "enableLmq": "false",
    "enableMultiDispatch": "false",
    "messageStorePlugIn": "",
    "readOnlyCommitLogStorePaths": "",
}


def parse_pairs(pairs: list[str]) -> dict[str, str]:
    """`key=value` arguments of a command line."""
    found = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise BadSetting(f"{pair!r} is not key=value")
        found[key.strip()] = value.strip()
    return found


def parse_file(content: bytes, name: str) -> dict[str, str]:
    """A .properties file, such as broker.conf."""
    try:
        return {key: value.strip() for key, value in parse_properties(content.decode()).items()}
    except UnicodeDecodeError as error:
        raise BadSetting(f"{name} is not UTF-8 text: {error}") from error


def build(shape: type[S], values: Mapping[str, str], *, base: S | None = None) -> S:
    """Settings with these values over the defaults, or over `base`; BadSetting names the key."""
    (built,) = build_all((shape,), values, base=() if base is None else (base,))
    return cast(S, built)


def build_all(
    shapes: Sequence[type[Settings]], values: Mapping[str, str], *, base: Sequence[Settings] = ()
) -> tuple[Settings, ...]:
    """As `build`, for several kinds of settings that share one file."""
    known = {key for shape in shapes for key in shape.__struct_encode_fields__}
    unknown = sorted(values.keys() - known - MEANINGLESS)
    if unknown:
        told = [f"{key}{_hint(key, known)}" for key in unknown]
        raise BadSetting(f"unknown setting{'s' * (len(told) > 1)} {', '.join(told)}")
    for key, nothing in _PROMISES.items():
        if values.get(key, nothing).lower() != nothing:
            raise BadSetting(f"{key}={values[key]}: this version has no such thing")
    ignored = sorted(values.keys() & (MEANINGLESS - known))
    if ignored:
        log.info("settings without a meaning here: %s", ", ".join(ignored))
    texts = {key: text for each in base for key, text in as_texts(each).items()} | dict(values)
    try:
        return tuple(msgspec.convert(texts, shape, strict=False) for shape in shapes)
    except msgspec.ValidationError as error:
        raise BadSetting(_told(str(error), texts)) from error


def _told(problem: str, texts: Mapping[str, str]) -> str:
    """With the setting first: the converter names it last, as a path."""
    what, _, path = problem.rpartition(" - at `$.")
    key = path.removesuffix("`")
    if key not in texts or key in SECRET:
        return f"bad setting: {problem}"
    return f"{key}={texts[key]}: {what[0].lower()}{what[1:]}"


def _hint(key: str, known: set[str]) -> str:
    near = get_close_matches(key, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def as_texts(settings: Settings) -> dict[str, str]:
    """Wire names and values, as a properties file holds them; what is None is left out."""
    names = zip(settings.__struct_fields__, settings.__struct_encode_fields__, strict=True)
    return {
        wire: java_text(msgspec.to_builtins(value))
        for name, wire in names
        if (value := getattr(settings, name)) is not None
    }


def as_properties(*settings: Settings) -> str:
    """The text that getNamesrvConfig and getBrokerConfig show: all but the secrets."""
    texts = {key: text for each in settings for key, text in as_texts(each).items()}
    return format_properties({key: texts[key] for key in texts.keys() - SECRET})
