"""Flow control of sends: refused while the broker is too slow to store them in time."""

from dataclasses import dataclass

from cometmq.broker.config import BrokerConfig
from cometmq.broker.page_cache import PageCache
from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.refusal_log import RefusalLog
from cometmq.seams import Clock
from cometmq.settings.live_settings import LiveSettings


@dataclass(frozen=True, slots=True)
class SendAdmission:
    """Measures how long sends wait and how long writes take."""

    settings: LiveSettings
    clock: Clock
    page_cache: PageCache
    refusals: RefusalLog

    def begin(self, received_ms: int) -> int:
        """The time now. Raises Refused if the send waited too long: its producer has given up."""
        config = self.settings.now(BrokerConfig)
        now_ms = self.clock.wall_ms()
        waited_ms = now_ms - received_ms
        limit_ms, cache = config.wait_time_mills_in_send_queue, self.page_cache
        if (waited_ms > limit_ms or cache.is_busy(now_ms)) and config.broker_fast_failure_enable:
            busy = f"broker busy, start flow control for a while, period in queue: {waited_ms}ms"
            if waited_ms > limit_ms:
                limit = f"the limit is waitTimeMillsInSendQueue={limit_ms}"
                raise self._busy(f"[TIMEOUT_CLEAN_QUEUE]{busy}, {limit}")
            slow_ms = config.os_page_cache_busy_time_out_mills
            limit = f"the limit is osPageCacheBusyTimeOutMills={slow_ms}"
            took = f"the last message took {cache.took_ms}ms to be written"
            raise self._busy(f"[PCBUSY_CLEAN_QUEUE]{busy}, {took}, {limit}")
        return now_ms

    def wrote(self, began_ms: int) -> int:
        """The time now, after messages were written; `began_ms` is what `begin` returned."""
        now_ms = self.clock.wall_ms()
        config = self.settings.now(BrokerConfig)
        self.page_cache.wrote(began_ms, now_ms, config.os_page_cache_busy_time_out_mills)
        return now_ms

    def _busy(self, reason: str) -> Refused:
        self.refusals.refused(reason)
        return Refused(ResponseCode.SYSTEM_BUSY, reason)
