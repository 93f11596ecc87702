"""Headers of requests about filter servers, which are obsolete: brokers refuse them."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32, Int64


class RegisterFilterServerHeader(Header):
    """The fields of a REGISTER_FILTER_SERVER request."""

    filter_server_addr: str


class RegisterFilterServerReplyHeader(Header):
    """The fields of the response to REGISTER_FILTER_SERVER."""

    broker_name: str
    broker_id: Int64


class RegisterFilterClassHeader(Header, rename=camel(class_crc="classCRC")):
    """The fields of a REGISTER_MESSAGE_FILTER_CLASS request."""

    consumer_group: str
    topic: str
    class_name: str
    class_crc: Int32
