"""The bounds of one side's connections, as a value that a server or a test may set."""

from dataclasses import dataclass

from cometmq.protocol import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Defaults are those of `protocol/limits.py`, of a server. Sizes in bytes, times in ms."""

    backlog: int = 1024  # connections that wait to be taken
    connections_max: int = limits.CONNECTIONS_MAX
    idle_ms_max: int = limits.IDLE_MS_MAX
    connect_ms_max: int = limits.CONNECT_MS_MAX
    frame_patience_ms: int = limits.FRAME_PATIENCE_MS
    inbound_size_max: int = limits.INBOUND_SIZE_MAX
    write_high_water: int = limits.WRITE_HIGH_WATER
    write_size_max: int = limits.WRITE_SIZE_MAX
    outbound_size_max: int = limits.OUTBOUND_SIZE_MAX
    close_patience_ms: int = limits.CLOSE_PATIENCE_MS
    turn_ms: int = limits.TURN_MS
    oneway_max: int = limits.SERVER_ONEWAY_MAX
    async_max: int = limits.SERVER_ASYNC_MAX
    lane_max: int = limits.LANE_MAX
    sweep_ms: int = 2_000  # how often idle and stuck connections are looked for


CLIENT_LIMITS = Limits(oneway_max=limits.CLIENT_ONEWAY_MAX, async_max=limits.CLIENT_ASYNC_MAX)
