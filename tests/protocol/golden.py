"""What Apache's classes wrote, read from tests/golden, and which of our structs it belongs to."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cometmq.protocol.bodies import consumer, heartbeat, queues, register, route, stats, tables
from cometmq.protocol.headers import (
    acl,
    base,
    client,
    filtersrv,
    group,
    namesrv,
    offset,
    pull,
    query,
    send,
    topic,
    transaction,
)
from cometmq.protocol.headers import consumer as consumer_headers
from cometmq.protocol.headers.base import Header, NoHeader, WrittenHeader
from cometmq.protocol.java.fastjson import Body

FOLDER = Path(__file__).parent.parent / "golden"


@cache
def entries(file: str, prefix: str = "") -> list[dict[str, Any]]:
    """The entries of a golden file whose names begin with `prefix`; at least one."""
    found = json.loads((FOLDER / f"{file}.json").read_text())["entries"]
    chosen = [entry for entry in found if entry["name"].startswith(prefix)]
    assert chosen, f"no entry of {file} begins with {prefix!r}"
    return chosen


def each(file: str, prefix: str = "") -> pytest.MarkDecorator:
    """The test once for each entry."""
    chosen = entries(file, prefix)
    return pytest.mark.parametrize("entry", chosen, ids=[entry["name"] for entry in chosen])


def value_of(file: str, name: str) -> Any:
    """The value of the one entry with this name."""
    (entry,) = [entry for entry in entries(file) if entry["name"] == name]
    return entry["value"]


def bytes_of(entry: dict[str, Any]) -> bytes:
    """What was written, whether text or bytes."""
    return bytes.fromhex(entry["hex"]) if "hex" in entry else entry["text"].encode()


def subclasses(of: type, *modules: object) -> list[type]:
    """The structs of these modules, each once."""
    found = [
        shape
        for module in modules
        for shape in vars(module).values()
        if isinstance(shape, type) and issubclass(shape, of) and shape is not of
    ]
    return sorted(set(found), key=lambda shape: shape.__name__)


HEADERS: list[type[Header]] = subclasses(
    Header, acl, base, client, consumer_headers, filtersrv, group, namesrv, offset, pull, query,
    send, topic, transaction,
)  # fmt: skip
HEADERS.remove(WrittenHeader)  # already encoded, never read
BODIES: list[type[Body]] = subclasses(
    Body, consumer, heartbeat, queues, register, route, stats, tables
)

BODY_OF_CLASS: dict[str, type] = {
    "BrokerStatsData": stats.BrokerStats,
    "CheckClientRequestBody": heartbeat.CheckClient,
    "ClusterInfo": route.ClusterInfo,
    "ConsumeMessageDirectlyResult": consumer.DirectConsumption,
    "ConsumeStats": stats.ConsumeStats,
    "ConsumeStatsList": stats.ConsumeStatsList,
    "ConsumerConnection": consumer.ConsumerConnection,
    "ConsumerOffsetSerializeWrapper": tables.ConsumerOffsetTable,
    "ConsumerRunningInfo": consumer.ConsumerRunningInfo,
    "DataVersion": tables.DataVersion,
    "DelayOffsetSerializeWrapper": tables.DelayOffsetTable,
    "GetConsumerListByGroupResponseBody": heartbeat.ConsumerIds,
    "GetConsumerStatusBody": consumer.ConsumerStatus,
    "GroupList": route.GroupList,
    "HeartbeatData": heartbeat.Heartbeat,
    "KVConfigSerializeWrapper": tables.KvConfigTable,
    "KVTable": tables.KeyValues,
    "LockBatchRequestBody": queues.LockQueues,
    "LockBatchResponseBody": queues.LockedQueues,
    "MessageQueue": queues.MessageQueue,
    "OffsetMovedEvent": consumer.OffsetMoved,
    "ProducerConnection": consumer.ProducerConnection,
    "ProducerTableInfo": consumer.ProducerTable,
    "QueryConsumeQueueResponseBody": stats.QueueUnits,
    "QueryConsumeTimeSpanBody": stats.QueueTimeSpans,
    "QueryCorrectionOffsetBody": consumer.CorrectionOffsets,
    "ResetOffsetBody": consumer.ResetOffsets,
    "ResetOffsetBodyForC": consumer.ResetOffsetsFlat,
    "SubscriptionData": heartbeat.Subscription,
    "SubscriptionGroupConfig": tables.GroupConfig,
    "SubscriptionGroupWrapper": tables.GroupConfigTable,
    "TopicConfigSerializeWrapper": tables.TopicConfigTable,
    "TopicList": route.TopicList,
    "TopicRouteData": route.TopicRoute,
    "TopicStatsTable": stats.TopicStats,
    "UnlockBatchRequestBody": queues.LockQueues,
}

HEADER_OF_CLASS: dict[str, type[Header]] = {
    "AddWritePermOfBrokerRequestHeader": namesrv.WritePermHeader,
    "AddWritePermOfBrokerResponseHeader": namesrv.AddedReplyHeader,
    "CheckTransactionStateRequestHeader": transaction.CheckTransactionHeader,
    "CloneGroupOffsetRequestHeader": consumer_headers.CloneOffsetHeader,
    "ConsumeMessageDirectlyResultRequestHeader": consumer_headers.ConsumeDirectlyHeader,
    "ConsumerSendMsgBackRequestHeader": send.SendBackHeader,
    "CreateAccessConfigRequestHeader": acl.CreateAccountHeader,
    "CreateTopicRequestHeader": topic.CreateTopicHeader,
    "DeleteAccessConfigRequestHeader": acl.DeleteAccountHeader,
    "DeleteKVConfigRequestHeader": namesrv.KvHeader,
    "DeleteSubscriptionGroupRequestHeader": group.DeleteGroupHeader,
    "DeleteTopicFromNamesrvRequestHeader": namesrv.DeleteTopicHeader,
    "DeleteTopicRequestHeader": topic.TopicHeader,
    "EndTransactionRequestHeader": transaction.EndTransactionHeader,
    "EndTransactionResponseHeader": NoHeader,
    "GetAllProducerInfoRequestHeader": NoHeader,
    "GetAllTopicConfigResponseHeader": NoHeader,
    "GetBrokerAclConfigResponseHeader": acl.AclVersionReplyHeader,
    "GetBrokerConfigResponseHeader": query.BrokerConfigReplyHeader,
    "GetConsumeStatsInBrokerHeader": consumer_headers.BrokerConsumeStatsHeader,
    "GetConsumeStatsRequestHeader": consumer_headers.ConsumeStatsHeader,
    "GetConsumerConnectionListRequestHeader": client.ConsumerGroupHeader,
    "GetConsumerListByGroupRequestHeader": client.ConsumerGroupHeader,
    "GetConsumerListByGroupResponseHeader": NoHeader,
    "GetConsumerRunningInfoRequestHeader": consumer_headers.RunningInfoHeader,
    "GetConsumerStatusRequestHeader": consumer_headers.ConsumerStatusHeader,
    "GetEarliestMsgStoretimeRequestHeader": offset.QueueHeader,
    "GetEarliestMsgStoretimeResponseHeader": offset.StoreTimeReplyHeader,
    "GetKVConfigRequestHeader": namesrv.KvHeader,
    "GetKVConfigResponseHeader": namesrv.KvReplyHeader,
    "GetKVListByNamespaceRequestHeader": namesrv.KvListHeader,
    "GetMaxOffsetRequestHeader": offset.QueueHeader,
    "GetMaxOffsetResponseHeader": offset.OffsetReplyHeader,
    "GetMinOffsetRequestHeader": offset.QueueHeader,
    "GetMinOffsetResponseHeader": offset.OffsetReplyHeader,
    "GetProducerConnectionListRequestHeader": client.ProducerGroupHeader,
    "GetRouteInfoRequestHeader": namesrv.RouteHeader,
    "GetTopicStatsInfoRequestHeader": topic.TopicHeader,
    "GetTopicsByClusterRequestHeader": namesrv.ClusterHeader,
    "NotifyConsumerIdsChangedRequestHeader": client.ConsumerGroupHeader,
    "PullMessageRequestHeader": pull.PullHeader,
    "PullMessageResponseHeader": pull.PullReplyHeader,
    "PutKVConfigRequestHeader": namesrv.PutKvHeader,
    "QueryConsumeQueueRequestHeader": query.QueryConsumeQueueHeader,
    "QueryConsumeTimeSpanRequestHeader": consumer_headers.TimeSpanHeader,
    "QueryConsumerOffsetRequestHeader": offset.QueryOffsetHeader,
    "QueryConsumerOffsetResponseHeader": offset.OffsetReplyHeader,
    "QueryCorrectionOffsetHeader": consumer_headers.CorrectionHeader,
    "QueryDataVersionRequestHeader": namesrv.BrokerHeader,
    "QueryDataVersionResponseHeader": namesrv.DataVersionReplyHeader,
    "QueryMessageRequestHeader": query.QueryMessageHeader,
    "QueryMessageResponseHeader": query.QueryMessageReplyHeader,
    "QueryTopicConsumeByWhoRequestHeader": topic.TopicHeader,
    "RegisterBrokerRequestHeader": namesrv.RegisterBrokerHeader,
    "RegisterBrokerResponseHeader": namesrv.RegisterBrokerReplyHeader,
    "RegisterFilterServerRequestHeader": filtersrv.RegisterFilterServerHeader,
    "RegisterFilterServerResponseHeader": filtersrv.RegisterFilterServerReplyHeader,
    "RegisterMessageFilterClassRequestHeader": filtersrv.RegisterFilterClassHeader,
    "ReplyMessageRequestHeader": send.PushReplyHeader,
    "ResetOffsetRequestHeader": consumer_headers.ResetOffsetHeader,
    "ResumeCheckHalfMessageRequestHeader": transaction.ResumeCheckHeader,
    "SearchOffsetRequestHeader": offset.SearchOffsetHeader,
    "SearchOffsetResponseHeader": offset.OffsetReplyHeader,
    "SendMessageRequestHeader": send.SendHeader,
    "SendMessageRequestHeaderV2": send.SendHeaderV2,
    "SendMessageResponseHeader": send.SendReplyHeader,
    "UnRegisterBrokerRequestHeader": namesrv.BrokerHeader,
    "UnregisterClientRequestHeader": client.UnregisterClientHeader,
    "UnregisterClientResponseHeader": NoHeader,
    "UpdateConsumerOffsetRequestHeader": offset.UpdateOffsetHeader,
    "UpdateConsumerOffsetResponseHeader": NoHeader,
    "UpdateGlobalWhiteAddrsConfigRequestHeader": acl.WhiteAddressesHeader,
    "ViewBrokerStatsDataRequestHeader": query.ViewStatsHeader,
    "ViewMessageRequestHeader": query.ViewMessageHeader,
    "ViewMessageResponseHeader": NoHeader,
    "WipeWritePermOfBrokerRequestHeader": namesrv.WritePermHeader,
    "WipeWritePermOfBrokerResponseHeader": namesrv.WipedReplyHeader,
}
