"""The limits of the protocol, servers and clients. Sizes in bytes, times in milliseconds."""

from typing import Annotated

import msgspec

# Java's integer types, which bound the numbers of the protocol.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

# The wire
FRAME_SIZE_MAX = 16 << 20  # including the length field; a longer frame closes the connection
HEADER_SIZE_MAX = 4 << 20  # a batch reply has 33 characters per message; properties are smaller
HEADER_FIELDS_MAX = 4096  # entries of a binary header
INFLATED_SIZE_MAX = 16 << 20  # of a compressed register body
TOPICS_MAX = 100_000  # topics of one register body
DIALECT_SIZE_MAX = 4 << 20  # of a body in fastjson's dialect
RESOLVED_PARTS_MAX = 1 << 18  # values in a body whose references are resolved

# A name server
KV_SIZE_MAX = 4 << 20  # of the key-value configuration, which is rewritten at each change
ROUTES_SIZE_MAX = 32 << 20  # of cached encoded routes

# A message
MESSAGE_SIZE_MAX = 4 << 20  # body; the default of maxMessageSize
BODY_INFLATED_SIZE_MAX = 64 << 20  # of a decompressed body at a consumer
PROPERTIES_SIZE_MAX = 32767  # a signed short on disk
TOPIC_LENGTH_MAX = 127  # a signed byte on disk
GROUP_LENGTH_MAX = 255
BATCH_COUNT_MAX = 65536  # messages in one batch body
assert MESSAGE_SIZE_MAX + 6 * PROPERTIES_SIZE_MAX + 4096 < FRAME_SIZE_MAX
assert 6 * PROPERTIES_SIZE_MAX + 4096 < HEADER_SIZE_MAX
assert 33 * BATCH_COUNT_MAX + 4096 < HEADER_SIZE_MAX

# A filter expression
EXPRESSION_LENGTH_MAX = 64 << 10  # in characters
EXPRESSION_DEPTH_MAX = 100  # of parentheses and signs; a level costs six frames of Python's stack

# A connection
CONNECT_MS_MAX = 3_000
IDLE_MS_MAX = 120_000  # idle time after which it is closed
FRAME_PATIENCE_MS = 10_000  # time for a frame, plus one second per FRAME_RATE_MIN bytes
FRAME_RATE_MIN = 64 << 10  # bytes per second
FRAME_SMALL = 64 << 10  # incomplete frames up to this size are always allowed
INBOUND_SIZE_MAX = 256 << 20  # of all incomplete frames of a server
WRITE_HIGH_WATER = 1 << 20  # unsent bytes above which the peer's requests are not read
WRITE_SIZE_MAX = 64 << 20  # unsent bytes above which the connection is closed
WRITE_SMALL = 4 << 10  # unsent bytes up to this size are always allowed
OUTBOUND_SIZE_MAX = 256 << 20  # unsent bytes of all connections of a server or client
CLOSE_PATIENCE_MS = 10_000  # for the peer to read the rest before the close
TURN_MS = 5  # of serving one connection before the others
CONNECTIONS_MAX = 10_000  # connections of one server
TLS_HANDSHAKE_MS_MAX = 10_000

# Requests in flight to peers
CLIENT_ONEWAY_MAX = 65535
CLIENT_ASYNC_MAX = 65535
SERVER_ONEWAY_MAX = 256
SERVER_ASYNC_MAX = 64

# Requests in flight from peers, per lane; a full lane answers SYSTEM_BUSY
LANE_MAX = 10_000
