"""A send whose caller waits in another thread: without a task, if its first try is good."""

from cometmq.client.durations import Timeout
from cometmq.client.loop import LoopCall
from cometmq.client.message import Message, SendResult
from cometmq.client.send.callback_sends import ToldTry
from cometmq.client.send.queue_request import QueueRequest
from cometmq.client.send.single_send import Singles
from cometmq.client.send.write_batcher import Outcome


class SendCall(LoopCall[SendResult]):
    """`Producer.send`, to be called on the loop."""

    __slots__ = ("_choice", "_first", "_message", "_singles", "_timeout")

    def __init__(
        self, singles: Singles, message: Message, choice: QueueRequest, timeout: Timeout
    ) -> None:
        super().__init__()
        self._singles = singles
        self._message = message
        self._choice = choice
        self._timeout = timeout
        self._first: ToldTry | None = None  # if it went with a burst: it is under way until the end

    def __call__(self) -> None:
        """On the loop: begin."""
        message, choice, timeout = self._message, self._choice, self._timeout
        try:
            self._singles.check_open()
            self._first = self._singles.begin_told(message, choice, timeout, self._first_over)
        except Exception as error:  # noqa: BLE001 - raised to the caller
            self.end(error=error)
            return
        if self._first is None:
            self.run(self._singles.send(message, choice, timeout))

    def cancel(self) -> None:
        """On the loop: nobody waits any more."""
        if self._first is not None and self._task is None:
            self._first.forget()
            self.end()
        else:
            super().cancel()

    def end(self, result: SendResult | None = None, error: BaseException | None = None) -> None:
        """On the loop: it is over."""
        if self._first is not None:
            self._first = None
            self._singles.ended()
        super().end(result, error)

    def _first_over(self, one: ToldTry, outcome: Outcome) -> None:
        if self._singles.is_final(outcome):
            self.end(outcome)
        else:
            self.run(self._singles.finish(one, one.destination, one.choice, outcome))
