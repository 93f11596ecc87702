"""Settings of a name server."""

from typing import Annotated

from msgspec import Meta

from cometmq.protocol.java.spelling import camel
from cometmq.remoting.config import TLS_NAMES, Port, ServerConfig
from cometmq.settings.live_settings import UpdateRules
from cometmq.settings.unused_settings import IgnoredServerConfig


class NamesrvConfig(ServerConfig, kw_only=True, rename=camel(**TLS_NAMES)):
    """How a name server listens, what it keeps, and when it forgets a broker."""

    # What it promises
    kv_config_path: Annotated[str, Meta(description="file of the key-value configuration")]
    config_store_path: Annotated[str, Meta(description="file that changed settings go to")]
    order_message_enable: Annotated[
        bool, Meta(description="routes of ordered topics carry their orderTopicConf")
    ] = False
    product_env_name: Annotated[str, Meta(description="a name for this environment")] = "center"
    cluster_test: Annotated[
        bool, Meta(description="taken for old files; the test environment it names is not asked")
    ] = False

    listen_port: Annotated[Port, Meta(description="0 lets the system choose")] = 9876

    # Its bounds
    scan_not_active_broker_interval: Annotated[
        int, Meta(ge=100, description="ms between two looks for silent brokers")
    ] = 10_000
    broker_channel_expired_time: Annotated[
        int, Meta(ge=1_000, description="ms after which a silent broker is forgotten")
    ] = 120_000


# Everything of 4.9 may change but what says where files are, where it listens and whom it trusts.
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
        "bindAddress": "it says where the server listens",
        "configBlackList": "it guards access",
        "configStorePath": "it says where files are",
        "kvConfigPath": "it says where files are",
        "listenPort": "it says where the server listens",
        "rocketmqHome": "it says where files are",
        **dict.fromkeys(TLS_NAMES.values(), "it guards access"),
    },
)
