"""Filter servers, which nobody runs any more: their requests are known and declined."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32, Int64


class RegisterFilterServerHeader(Header):
    """REGISTER_FILTER_SERVER."""

    filter_server_addr: str


class RegisterFilterServerReplyHeader(Header):
    """Of REGISTER_FILTER_SERVER."""

    broker_name: str
    broker_id: Int64


class RegisterFilterClassHeader(Header, rename=camel(class_crc="classCRC")):
    """REGISTER_MESSAGE_FILTER_CLASS."""

    consumer_group: str
    topic: str
    class_name: str
    class_crc: Int32
