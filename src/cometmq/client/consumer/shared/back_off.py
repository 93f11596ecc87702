"""Back-off policies: how long to wait before a failed pull is repeated.

Pure: a policy maps an error and the number of failures in a row to a delay.
"""

from dataclasses import dataclass
from typing import Protocol

from cometmq.errors import PeerError, Refused, Unreachable, WorldError
from cometmq.protocol.codes import ResponseCode

BUSY_MS = 20  # before a broker that refused a pull because of flow control is asked again
_FIRST_MS = 50
_DOUBLINGS_MAX = 16
_UNKNOWN_SUBSCRIPTION = frozenset(
    {ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST}
)


class BackOff(Protocol):
    """How long to wait after a failure."""

    def delay_ms(self, error: Exception, failures: int) -> int:
        """The delay after `failures` failures in a row (1 or more); `error` is the last one."""


def needs_heartbeat(error: Exception) -> bool:
    """True if the broker may not know this consumer any more: a heartbeat introduces it again."""
    return isinstance(error, Unreachable) or _is_unknown(error)


def is_busy(error: Exception) -> bool:
    """True if the broker refused because of flow control."""
    return isinstance(error, Refused) and error.code == ResponseCode.FLOW_CONTROL


@dataclass(frozen=True, slots=True)
class SteadyBackOff:
    """The same delay each time, as Apache RocketMQ's push consumer.

    A broker that is busy, or that lacks our heartbeat, is asked again after `BUSY_MS`; the latter
    only once, because the heartbeat is sent in between.
    """

    usual_ms: int

    def delay_ms(self, error: Exception, failures: int) -> int:
        """See BackOff."""
        assert failures > 0, "no failure, no delay"
        if is_busy(error) or (_is_unknown(error) and failures == 1):
            return BUSY_MS
        if isinstance(error, PeerError | WorldError):
            return self.usual_ms
        return max(self.usual_ms, BUSY_MS)  # an error of ours must not become a busy loop


@dataclass(frozen=True, slots=True)
class ExponentialBackOff:
    """100 ms after the first failure, doubled after each further one, up to `delay_ms_max`."""

    delay_ms_max: int

    def delay_ms(self, error: Exception, failures: int) -> int:
        """See BackOff."""
        assert failures > 0, "no failure, no delay"
        return min(self.delay_ms_max, _FIRST_MS << min(failures, _DOUBLINGS_MAX))


def _is_unknown(error: Exception) -> bool:
    return isinstance(error, Refused) and error.code in _UNKNOWN_SUBSCRIPTION
