"""The 20 requests that a name server answers, and their table."""

import logging
from dataclasses import dataclass

from cometmq.errors import Malformed, Refused, TooLarge
from cometmq.namesrv.config import NamesrvConfig
from cometmq.namesrv.encoded_routes import EncodedRoutes
from cometmq.namesrv.kv_table import ORDER_TOPICS, KvTable
from cometmq.namesrv.route_table import RouteTable
from cometmq.protocol.bodies.register import RegisterBroker, decode_register
from cometmq.protocol.bodies.route import TopicList
from cometmq.protocol.bodies.tables import DataVersion, KeyValues, TopicConfigTable
from cometmq.protocol.codes import VERSION_3_0_11, VERSION_4_9_4, RequestCode, ResponseCode
from cometmq.protocol.flags import TopicFlag
from cometmq.protocol.headers import namesrv as headers
from cometmq.protocol.headers.base import NoHeader, is_true
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.records.message import body_crc
from cometmq.remoting.access import ADMIN, BROKER, OPEN
from cometmq.remoting.dispatch import Call, Link, Reply, Route, Routes
from cometmq.seams import Clock
from cometmq.settings.live_settings import LiveSettings
from cometmq.settings.settings import as_properties

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KvHandlers:
    """Reads and changes of the key-value configuration."""

    kv: KvTable

    async def put(self, call: Call, ask: headers.PutKvHeader) -> Reply:
        await self.kv.put(ask.namespace, ask.key, ask.value)
        return Reply()

    def get(self, call: Call, ask: headers.KvHeader) -> Reply:
        value = self.kv.get(ask.namespace, ask.key)
        if value is None:
            raise _not_found(f"no config item, namespace: {ask.namespace} key: {ask.key}")
        return Reply(header=headers.KvReplyHeader(value=value))

    async def delete(self, call: Call, ask: headers.KvHeader) -> Reply:
        await self.kv.delete(ask.namespace, ask.key)
        return Reply()

    def list(self, call: Call, ask: headers.KvListHeader) -> Reply:
        values = self.kv.namespace(ask.namespace)
        if values is None:
            raise _not_found(f"no config item, namespace: {ask.namespace}")
        return Reply(body=dumps(KeyValues(table=values)))


@dataclass(frozen=True, slots=True)
class RegistrationHandlers:
    """Registration of brokers and their topics."""

    table: RouteTable[Link]
    kv: KvTable
    clock: Clock

    def register(self, call: Call, ask: headers.RegisterBrokerHeader) -> Reply:
        body = call.command.body
        if ask.body_crc32 and ask.body_crc32 != body_crc(body):
            raise Refused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        told = _told(body, ask.compressed, call.command.version)
        now_ms = self.clock.monotonic_ms()
        registered = self.table.register(ask, told, call.link, now_ms)
        order_topics = self.kv.namespace(ORDER_TOPICS)
        return Reply(
            header=headers.RegisterBrokerReplyHeader(
                ha_server_addr=registered.ha_address, master_addr=registered.master_address
            ),
            body=b"" if order_topics is None else dumps(KeyValues(table=order_topics)),
        )

    def unregister(self, call: Call, ask: headers.BrokerHeader) -> Reply:
        self.table.unregister(ask)
        log.info("broker %s at %s unregistered", ask.broker_name, ask.broker_addr)
        return Reply()

    def query_version(self, call: Call, ask: headers.BrokerHeader) -> Reply:
        """QUERY_DATA_VERSION: whether the broker must send its topics."""
        version = loads(call.command.body, DataVersion)
        current = self.table.is_current(ask.broker_addr, version, self.clock.monotonic_ms())
        ours = self.table.version_of(ask.broker_addr)
        return Reply(
            header=headers.DataVersionReplyHeader(changed=not current),
            body=b"" if ours is None else dumps(ours),
        )


def _told(body: bytes, compressed: bool, version: int) -> RegisterBroker:
    """Decode a register body. Before 3.0.11 it had only topics."""
    if not body:
        return RegisterBroker()
    try:
        if version >= VERSION_3_0_11:
            return decode_register(body, compressed=compressed)
        return RegisterBroker(topics=loads(body, TopicConfigTable))
    except (Malformed, TooLarge) as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"register body: {error}") from error


@dataclass(frozen=True, slots=True)
class RouteHandlers:
    """Routes of topics, and the brokers of all clusters."""

    table: RouteTable[Link]
    encoded: EncodedRoutes[Link]
    kv: KvTable
    config: LiveSettings

    def route(self, call: Call, ask: headers.RouteHeader) -> Reply:
        ordered = self.config.now(NamesrvConfig).order_message_enable
        body = self.encoded.route(
            ask.topic,
            self.kv.get(ORDER_TOPICS, ask.topic) if ordered else None,
            standard=is_true(ask.accept_standard_json_only)
            or call.command.version >= VERSION_4_9_4,
        )
        if body is None:
            raise Refused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {ask.topic}; create it, or "
                "check that a broker which serves it is registered here",
            )
        return Reply(body=body)

    def cluster_info(self, call: Call, ask: NoHeader) -> Reply:
        return Reply(body=dumps(self.table.cluster_info()))


@dataclass(frozen=True, slots=True)
class TopicListHandlers:
    """Lists of topics, deletion of topics, and write permission of brokers."""

    table: RouteTable[Link]

    def every(self, call: Call, ask: NoHeader) -> Reply:
        return _topic_list(self.table.topics())

    def of_cluster(self, call: Call, ask: headers.ClusterHeader) -> Reply:
        return _topic_list(self.table.topics_of_cluster(ask.cluster))

    def system(self, call: Call, ask: NoHeader) -> Reply:
        names, broker_address = self.table.names_as_topics()
        return Reply(body=dumps(TopicList(broker_addr=broker_address, topic_list=names)))

    def unit(self, call: Call, ask: NoHeader) -> Reply:
        return _topic_list(self.table.topics_with(TopicFlag.UNIT))

    def unit_sub(self, call: Call, ask: NoHeader) -> Reply:
        return _topic_list(self.table.topics_with(TopicFlag.UNIT_SUB))

    def unit_sub_only(self, call: Call, ask: NoHeader) -> Reply:
        return _topic_list(self.table.topics_with(TopicFlag.UNIT_SUB, TopicFlag.UNIT))

    def delete(self, call: Call, ask: headers.DeleteTopicHeader) -> Reply:
        self.table.delete_topic(ask.topic, ask.cluster_name or None)
        log.info("topic %s deleted by %s", ask.topic, call.link.peer)
        return Reply()

    def wipe_write_perm(self, call: Call, ask: headers.WritePermHeader) -> Reply:
        count = self.table.wipe_write_perm(ask.broker_name)
        log.info("write permission of %s wiped by %s", ask.broker_name, call.link.peer)
        return Reply(header=headers.WipedReplyHeader(wipe_topic_count=count))

    def add_write_perm(self, call: Call, ask: headers.WritePermHeader) -> Reply:
        count = self.table.add_write_perm(ask.broker_name)
        log.info("write permission of %s given back by %s", ask.broker_name, call.link.peer)
        return Reply(header=headers.AddedReplyHeader(add_topic_count=count))


@dataclass(frozen=True, slots=True)
class ConfigHandlers:
    """The server's own settings."""

    config: LiveSettings

    async def update(self, call: Call, ask: NoHeader) -> Reply:
        await self.config.update(call.command.body)
        return Reply()

    def get(self, call: Call, ask: NoHeader) -> Reply:
        return Reply(body=as_properties(*self.config.all).encode())


def _topic_list(topics: list[str]) -> Reply:
    return Reply(body=dumps(TopicList(topic_list=topics)))


def _not_found(reason: str) -> Refused:
    return Refused(ResponseCode.QUERY_NOT_FOUND, reason)


def build_routes(
    table: RouteTable[Link], kv: KvTable, config: LiveSettings, clock: Clock
) -> Routes:
    """Every request this name server answers."""
    kv_config = KvHandlers(kv)
    registration = RegistrationHandlers(table, kv, clock)
    routing = RouteHandlers(table, EncodedRoutes(table), kv, config)
    topics = TopicListHandlers(table)
    configuration = ConfigHandlers(config)
    code = RequestCode
    return {
        code.PUT_KV_CONFIG: Route(kv_config.put, headers.PutKvHeader, ADMIN, writes=True),
        code.GET_KV_CONFIG: Route(kv_config.get, headers.KvHeader, OPEN),
        code.DELETE_KV_CONFIG: Route(kv_config.delete, headers.KvHeader, ADMIN, writes=True),
        code.REGISTER_BROKER: Route(
            registration.register, headers.RegisterBrokerHeader, BROKER, writes=True
        ),
        code.UNREGISTER_BROKER: Route(
            registration.unregister, headers.BrokerHeader, BROKER, writes=True
        ),
        code.GET_ROUTEINFO_BY_TOPIC: Route(routing.route, headers.RouteHeader, OPEN),
        code.GET_BROKER_CLUSTER_INFO: Route(routing.cluster_info, NoHeader, OPEN),
        code.WIPE_WRITE_PERM_OF_BROKER: Route(
            topics.wipe_write_perm, headers.WritePermHeader, ADMIN, writes=True
        ),
        code.ADD_WRITE_PERM_OF_BROKER: Route(
            topics.add_write_perm, headers.WritePermHeader, ADMIN, writes=True
        ),
        code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Route(topics.every, NoHeader, OPEN),
        code.DELETE_TOPIC_IN_NAMESRV: Route(
            topics.delete, headers.DeleteTopicHeader, ADMIN, writes=True
        ),
        code.GET_KVLIST_BY_NAMESPACE: Route(kv_config.list, headers.KvListHeader, OPEN),
        code.GET_TOPICS_BY_CLUSTER: Route(topics.of_cluster, headers.ClusterHeader, OPEN),
        code.GET_SYSTEM_TOPIC_LIST_FROM_NS: Route(topics.system, NoHeader, OPEN),
        code.GET_UNIT_TOPIC_LIST: Route(topics.unit, NoHeader, OPEN),
        code.GET_HAS_UNIT_SUB_TOPIC_LIST: Route(topics.unit_sub, NoHeader, OPEN),
        code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Route(topics.unit_sub_only, NoHeader, OPEN),
        code.UPDATE_NAMESRV_CONFIG: Route(configuration.update, NoHeader, ADMIN, writes=True),
        code.GET_NAMESRV_CONFIG: Route(configuration.get, NoHeader, ADMIN),
        code.QUERY_DATA_VERSION: Route(
            registration.query_version, headers.BrokerHeader, BROKER, writes=True
        ),
    }
