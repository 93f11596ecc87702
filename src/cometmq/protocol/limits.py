"""Every bound of the system on one page. Sizes in bytes, times in milliseconds."""

from typing import Annotated

import msgspec

# Java's integer types: what a peer can hold, and so what we may send or accept.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

# The wire
FRAME_SIZE_MAX = 16 << 20  # with its length field; a longer frame closes the connection
HEADER_SIZE_MAX = 4 << 20  # the reply to a batch has 33 characters a message; properties less
HEADER_FIELDS_MAX = 4096  # entries of a binary header
INFLATED_SIZE_MAX = 16 << 20  # of a compressed register body
TOPICS_MAX = 100_000  # of one register body
DIALECT_SIZE_MAX = 4 << 20  # of a body that must be rewritten before it can be read
RESOLVED_PARTS_MAX = 1 << 18  # values in a body whose references are resolved

# A name server
KV_SIZE_MAX = 4 << 20  # of its key-value configuration, which is written whole at each change
ROUTES_SIZE_MAX = 32 << 20  # of encoded routes that are kept

# A message
MESSAGE_SIZE_MAX = 4 << 20  # body; the default of maxMessageSize
BODY_INFLATED_SIZE_MAX = 64 << 20  # of a compressed body, as a consumer reads it
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
IDLE_MS_MAX = 120_000  # nothing read and nothing written for so long closes it
FRAME_PATIENCE_MS = 10_000  # a begun frame gets this, and a second more per FRAME_RATE_MIN bytes
FRAME_RATE_MIN = 64 << 10  # bytes a second
FRAME_SMALL = 64 << 10  # begun frames up to here never count as a burden
INBOUND_SIZE_MAX = 256 << 20  # all begun frames of one server together
WRITE_HIGH_WATER = 1 << 20  # unsent bytes past which we stop reading from that peer
WRITE_SIZE_MAX = 64 << 20  # unsent bytes past which a peer that does not read is cut off
WRITE_SMALL = 4 << 10  # unsent bytes up to here never count as a burden
OUTBOUND_SIZE_MAX = 256 << 20  # unsent bytes of all connections of one side together
CLOSE_PATIENCE_MS = 10_000  # for the peer to read what was written before the close
TURN_MS = 5  # of serving one connection, before the others have their turn
CONNECTIONS_MAX = 10_000  # of one server
TLS_HANDSHAKE_MS_MAX = 10_000

# Requests in flight that we sent
CLIENT_ONEWAY_MAX = 65535
CLIENT_ASYNC_MAX = 65535
SERVER_ONEWAY_MAX = 256
SERVER_ASYNC_MAX = 64

# Requests in flight that we were sent and still work on, per lane; a full lane answers SYSTEM_BUSY
LANE_MAX = 10_000
