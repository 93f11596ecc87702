"""One message that an operator sends to a listener directly, without a queue."""

import traceback
from collections.abc import Mapping

from cometmq.client.consumer.push.listener import Listener, ListenerCall
from cometmq.client.consumer.push.process_queue import ProcessQueue
from cometmq.client.consumer.push.workers import ThreadWorkers
from cometmq.client.consumer.shared.outcomes import Ack, Commit, Outcome, Retry, Rollback, Suspend
from cometmq.client.message import ReceivedMessage
from cometmq.protocol.bodies.consumer import ConsumeResult, DirectConsumption

_RESULT_OF: Mapping[type[Outcome], ConsumeResult] = {
    Ack: ConsumeResult.SUCCESS,
    Retry: ConsumeResult.LATER,
    Suspend: ConsumeResult.LATER,
    Commit: ConsumeResult.COMMIT,
    Rollback: ConsumeResult.ROLLBACK,
}


async def consume_directly(listener: Listener, message: ReceivedMessage) -> DirectConsumption:
    """Run the function that wants this message, and report its outcome. No offset changes."""
    handler = listener.handlers.of(message)
    call = ListenerCall(None, ProcessQueue(), [message], handler)
    remark = None
    if handler is None:
        remark = f"no function of this consumer wants messages tagged {message.tags}"
    elif handler.is_async:
        await listener.run_async(call)
    else:
        await _run_in_thread(listener, call)
    if call.error is not None:
        result = ConsumeResult.THROW_EXCEPTION
        remark = "".join(traceback.format_exception(call.error))
    else:
        outcome = call.outcome(orderly=listener.is_orderly)
        result = _RESULT_OF[type(outcome)]
        if isinstance(outcome, Ack) and outcome.count == 0:
            result = ConsumeResult.LATER
    return DirectConsumption(
        auto_commit=not listener.commits_itself,
        consume_result=result,
        order=listener.is_orderly,
        remark=remark,
        spent_time_mills=call.took_ms,
    )


async def _run_in_thread(listener: Listener, call: ListenerCall) -> None:
    """Use a daemon thread: a function that never returns must not keep the process alive."""
    workers = ThreadWorkers(1, lambda calls: None, listener, "consume-directly")
    workers.give(call)
    try:
        await workers.wait_until_idle()
    finally:
        workers.close()
