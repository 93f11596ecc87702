"""The settings of a name server, and which of them a request may change."""

from typing import Annotated

from msgspec import Meta

from cometmq.protocol.java.spelling import camel
from cometmq.remoting.config import TLS_NAMES, Port, ServerConfig
from cometmq.settings.live_settings import UpdateRules
from cometmq.settings.unused_settings import IgnoredServerConfig


class NamesrvConfig(ServerConfig, kw_only=True, rename=camel(**TLS_NAMES)):
    """The settings of a name server."""

    # Files and routes
    kv_config_path: Annotated[str, Meta(description="file of the key-value configuration")]
    config_store_path: Annotated[
        str, Meta(description="file to which changed settings are written")
    ]
    order_message_enable: Annotated[
        bool, Meta(description="routes of ordered topics contain their orderTopicConf")
    ] = False
    product_env_name: Annotated[
        str, Meta(description="name of this environment; has no effect")
    ] = "center"
    cluster_test: Annotated[bool, Meta(description="accepted for compatibility; has no effect")] = (
        False
    )

    listen_port: Annotated[Port, Meta(description="port to listen on; 0: any free port")] = 9876

    # Expiry of brokers
    scan_not_active_broker_interval: Annotated[
        int, Meta(ge=100, description="ms between two checks for expired brokers")
    ] = 10_000
    broker_channel_expired_time: Annotated[
        int, Meta(ge=1_000, description="ms without registration after which a broker is removed")
    ] = 120_000


# All settings of 4.9 may change except paths, addresses and settings that guard access.
UPDATE_RULES = UpdateRules(
    live=frozenset(
        {"brokerChannelExpiredTime", "orderMessageEnable", "scanNotActiveBrokerInterval"}
    ),
    next_start=frozenset(
        {
            "serverAsyncSemaphoreValue",
            "serverChannelMaxIdleTimeSeconds",
            "serverOnewaySemaphoreValue",
            "serverSocketBacklog",
        }
    ),
    without_effect=frozenset(
        {"clusterTest", "productEnvName", *IgnoredServerConfig.__struct_encode_fields__}
    ),
    refused={
        "bindAddress": "it defines where the server listens",
        "configBlackList": "it guards access",
        "configStorePath": "it is a path",
        "kvConfigPath": "it is a path",
        "listenPort": "it defines where the server listens",
        "rocketmqHome": "it is a path",
        **dict.fromkeys(TLS_NAMES.values(), "it guards access"),
    },
)
