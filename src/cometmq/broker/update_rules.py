"""Rules of updateBrokerConfig: which settings may change, when, and why others are refused.

All settings of 4.9 may change except paths, addresses, the broker's identity, access control and
settings that name code. Apache's 4.9.7 also accepts those, which allowed anyone with access to the
port to run code on the machine (CVE-2023-33246, CVE-2023-37582). Some of them have no effect here;
they are refused as well, because the same file may start Apache's broker next.
"""

from collections.abc import Mapping

from cometmq.broker.delivery.delay_levels import DelayLevels
from cometmq.settings.live_settings import UpdateRules
from cometmq.settings.unused_settings import IgnoredBrokerConfig

# Read at each use, or applied by `Broker._follow_settings`.
_LIVE = frozenset(
    {
        "accessMessageInMemoryMaxRatio",
        "autoCreateSubscriptionGroup",
        "autoCreateTopicEnable",
        "brokerFastFailureEnable",
        "brokerPermission",
        "cleanFileForciblyEnable",
        "cleanResourceInterval",
        "compressedRegister",
        "defaultQueryMaxNum",
        "defaultTopicQueueNums",
        "deleteWhen",
        "diskMaxUsedSpaceRatio",
        "enablePropertyFilter",
        "enableScheduleMessageStats",
        "fileReservedTime",
        "filterDataCleanTimeSpan",
        "filterSupportRetry",
        "flushCommitLogLeastPages",
        "flushCommitLogThoroughInterval",
        "flushConsumerOffsetInterval",
        "flushDelayOffsetInterval",
        "flushDiskType",
        "flushIntervalCommitLog",
        "flushIntervalConsumeQueue",
        "forceRegister",
        "longPollingEnable",
        "maxMessageSize",
        "maxMsgsNumBatch",
        "maxTransferBytesOnMessageInDisk",
        "maxTransferBytesOnMessageInMemory",
        "maxTransferCountOnMessageInDisk",
        "maxTransferCountOnMessageInMemory",
        "notifyConsumerIdsChangedEnable",
        "osPageCacheBusyTimeOutMills",
        "regionId",
        "registerBrokerTimeoutMills",
        "registerNameServerPeriod",
        "rejectTransactionMessage",
        "shortPollingTimeMills",
        "slaveReadEnable",
        "startAcceptSendRequestTimeStamp",
        "storeReplyMessageEnable",
        "syncFlushTimeout",
        "traceOn",
        "transactionCheckInterval",
        "transactionCheckMax",
        "transactionTimeOut",
        "waitTimeMillsInSendQueue",
    }
)

_NEXT_START = frozenset(
    {
        "brokerTopicEnable",
        "clientManagerThreadPoolQueueCapacity",
        "clusterTopicEnable",
        "consumerManagerThreadPoolQueueCapacity",
        "enableCalcFilterBitMap",
        "enableConsumeQueueExt",
        "endTransactionPoolQueueCapacity",
        "expectConsumerNumUseFilter",
        "flushLeastPagesWhenWarmMapedFile",
        "heartbeatThreadPoolQueueCapacity",
        "maxErrorRateOfBloomFilter",
        "messageDelayLevel",
        "messageIndexEnable",
        "pullThreadPoolQueueCapacity",
        "queryThreadPoolQueueCapacity",
        "replyThreadPoolQueueCapacity",
        "sendThreadPoolQueueCapacity",
        "serverAsyncSemaphoreValue",
        "serverChannelMaxIdleTimeSeconds",
        "serverOnewaySemaphoreValue",
        "serverSocketBacklog",
        "traceTopicEnable",
        "warmMapedFileEnable",
    }
)

_REFUSED = {
    "it is a path": (
        "brokerConfigPath",
        "readOnlyCommitLogStorePaths",
        "storePathCommitLog",
        "storePathDLedgerCommitLog",
        "storePathRootDir",
    ),
    "existing files of the store have this size": (
        "mappedFileSizeCommitLog",
        "mappedFileSizeConsumeQueue",
        "mappedFileSizeConsumeQueueExt",
        "maxHashSlotNum",
        "maxIndexNum",
    ),
    "it is an address of the broker": ("bindAddress", "brokerIP1", "brokerIP2", "listenPort"),
    "it is part of the broker's identity": (
        "brokerClusterName",
        "brokerId",
        "brokerName",
        "brokerRole",
    ),
    "the existing topic contains messages": ("msgTraceTopicName",),
    "it defines the name servers that the broker trusts": (
        "fetchNamesrvAddrByAddressServer",
        "namesrvAddr",
    ),
    "it belongs to replication": (
        "dLegerGroup",
        "dLegerPeers",
        "dLegerSelfId",
        "enableDLegerCommitLog",
        "haHousekeepingInterval",
        "haListenPort",
        "haMasterAddress",
        "haSendHeartbeatInterval",
        "haSlaveFallbehindMax",
        "haTransferBatchSize",
        "preferredLeaderId",
    ),
    "it guards access": (
        "aclEnable",
        "configBlackList",
        "tls.client.authServer",
        "tls.client.trustCertPath",
        "tls.server.certPath",
        "tls.server.keyPassword",
        "tls.server.keyPath",
        "tls.server.mode",
        "tls.server.trustCertPath",
        "useTLS",
    ),
    "Apache's broker runs the code that it names": (
        "filterServerNums",
        "messageStorePlugIn",
        "rocketmqHome",
    ),
    "it follows from expectConsumerNumUseFilter and maxErrorRateOfBloomFilter": (
        "bitMapLengthConsumeQueueExt",
    ),
}


def _check(changes: Mapping[str, str]) -> None:
    """Check values that have their own parser; a bad one would prevent the next start."""
    if "messageDelayLevel" in changes:
        DelayLevels(changes["messageDelayLevel"])


UPDATE_RULES = UpdateRules(
    live=_LIVE,
    next_start=_NEXT_START,
    without_effect=frozenset(IgnoredBrokerConfig.__struct_encode_fields__),
    refused={key: reason for reason, keys in _REFUSED.items() for key in keys},
    check=_check,
)
