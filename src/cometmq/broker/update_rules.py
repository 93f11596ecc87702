"""Which settings updateBrokerConfig may change, when each takes effect, and why others are refused.

Everything of 4.9 may change but what says where files are, where the broker listens, who it is,
whom it trusts and which code runs. Apache's 4.9.7 accepts those too, which let anyone who reached
the port run code on the machine (CVE-2023-33246, CVE-2023-37582). Some of them have no effect here;
they are refused as well, because the same file may start Apache's broker next.
"""

from collections.abc import Mapping

from cometmq.broker.delivery.delay_levels import DelayLevels
from cometmq.settings.live_settings import UpdateRules
from cometmq.settings.unused_settings import IgnoredBrokerConfig

# Read each time they are needed, or taken over by `Broker._follow_settings`.
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
    "it says where files are": (
        "brokerConfigPath",
        "readOnlyCommitLogStorePaths",
        "storePathCommitLog",
        "storePathDLedgerCommitLog",
        "storePathRootDir",
    ),
    "files of the store have this shape, and the next start would refuse or rebuild them": (
        "mappedFileSizeCommitLog",
        "mappedFileSizeConsumeQueue",
        "mappedFileSizeConsumeQueueExt",
        "maxHashSlotNum",
        "maxIndexNum",
    ),
    "it says where the broker listens, or which address others get": (
        "bindAddress",
        "brokerIP1",
        "brokerIP2",
        "listenPort",
    ),
    "it says who the broker is": ("brokerClusterName", "brokerId", "brokerName", "brokerRole"),
    "it is the name of a topic that holds messages": ("msgTraceTopicName",),
    "it says which name servers the broker trusts": (
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
    "Apache's broker runs code that it names": (
        "filterServerNums",
        "messageStorePlugIn",
        "rocketmqHome",
    ),
    "it follows from expectConsumerNumUseFilter and maxErrorRateOfBloomFilter": (
        "bitMapLengthConsumeQueueExt",
    ),
}


def _check(changes: Mapping[str, str]) -> None:
    """Validate what only its parser can check; a bad value would prevent the next start."""
    if "messageDelayLevel" in changes:
        DelayLevels(changes["messageDelayLevel"])


UPDATE_RULES = UpdateRules(
    live=_LIVE,
    next_start=_NEXT_START,
    without_effect=frozenset(IgnoredBrokerConfig.__struct_encode_fields__),
    refused={key: reason for reason, keys in _REFUSED.items() for key in keys},
    check=_check,
)
