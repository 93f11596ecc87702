"""The retry rule of sends as a table: outcomes in, steps out, without a socket or a clock."""

import pytest

from cometmq.client.message import SendResult, SendStatus
from cometmq.client.send.attempts import Done, Failed, RetryPolicy, SendAttempts, TryAgain
from cometmq.errors import (
    BadMessage,
    Closed,
    NoRoute,
    Refused,
    StoredState,
    TimedOut,
    TooManyRequests,
    Unreachable,
)
from cometmq.protocol.bodies.queues import MessageQueue

RETRIED, FINAL = 1, 2  # response codes
A, B = MessageQueue("t", "a", 0), MessageQueue("t", "b", 0)
FREE = RetryPolicy(2, codes=frozenset({RETRIED}))
SAFE = RetryPolicy(2, codes=frozenset({RETRIED}), when_not_safe=True)
CHOSEN = RetryPolicy(2, same_queue=True)
ONCE = RetryPolicy(0)


def result(status=SendStatus.OK):
    return SendResult(status, "id", "offset id", A, 0)


def lost():
    return Unreachable("the answer is lost")


def not_written():
    return Unreachable("no connection", stored=StoredState.NO)


def attempts(policy, *, brokers="ab", deadline_ms=1000, chance=1.0):
    def other(failed):
        if not brokers:
            raise NoRoute("no queue")
        names = [name for name in brokers if name != failed] or brokers
        return MessageQueue("t", names[0], 0)

    return SendAttempts(policy, deadline_ms, other, lambda: chance)


AGAIN_ELSEWHERE, AGAIN_HERE = TryAgain(B), TryAgain(A)
UNSAFE = result(SendStatus.FLUSH_DISK_TIMEOUT)


@pytest.mark.parametrize(
    ("policy", "outcome", "step"),
    [
        (FREE, result(), Done(result())),
        (FREE, UNSAFE, Done(UNSAFE)),
        (SAFE, UNSAFE, AGAIN_ELSEWHERE),
        (FREE, lost(), AGAIN_ELSEWHERE),
        (FREE, not_written(), AGAIN_ELSEWHERE),
        (FREE, TimedOut("late"), AGAIN_ELSEWHERE),
        (FREE, NoRoute("no master"), AGAIN_ELSEWHERE),
        (FREE, Refused(RETRIED, "later"), AGAIN_ELSEWHERE),
        (FREE, Refused(FINAL, "never"), Failed),
        (FREE, TooManyRequests("overloaded"), Failed),
        (FREE, BadMessage("too large"), Failed),
        (FREE, Closed("closed"), Failed),
        (FREE, ValueError("of a check"), Failed),
        (CHOSEN, result(), Done(result())),
        (CHOSEN, UNSAFE, Done(UNSAFE)),
        (CHOSEN, lost(), AGAIN_HERE),
        (CHOSEN, NoRoute("no master"), AGAIN_HERE),
        (CHOSEN, Refused(RETRIED, "later"), Failed),
        (ONCE, lost(), Failed),
        (ONCE, Refused(RETRIED, "later"), Failed),
        (ONCE, result(), Done(result())),
    ],
)
def test_the_step_after_a_first_attempt(policy, outcome, step):
    found = attempts(policy).after(A, outcome, 0)
    if step is Failed:
        assert found == Failed(outcome)
        assert not hasattr(outcome, "__notes__")
    else:
        assert found == step


@pytest.mark.parametrize(
    ("outcomes", "reported"),
    [
        ([lost(), Refused(RETRIED, "r"), Refused(RETRIED, "r")], 0),
        ([lost(), not_written(), Refused(FINAL, "r")], 0),
        ([lost(), lost(), Refused(FINAL, "r")], 1),
        ([not_written(), not_written(), Refused(FINAL, "r")], 2),
        ([Refused(RETRIED, "r"), Refused(RETRIED, "r"), not_written()], 2),
        ([Refused(RETRIED, "r"), TimedOut("late"), Refused(FINAL, "r")], 1),
    ],
)
def test_a_lost_answer_takes_precedence(outcomes, reported):
    tried = attempts(FREE)
    steps = [tried.after(queue, each, 0) for queue, each in zip([A, B, A], outcomes, strict=True)]
    assert [type(step) for step in steps] == [TryAgain, TryAgain, Failed]
    assert steps[-1].error is outcomes[reported]
    assert steps[-1].error.__notes__[0].startswith("tried 3 times: ")


def test_a_result_takes_precedence_over_later_failures():
    tried = attempts(SAFE)
    tried.after(A, UNSAFE, 0)
    assert tried.after(B, TooManyRequests("overloaded"), 0) == Done(UNSAFE)


def test_the_last_unsafe_result_is_reported():
    tried = attempts(SAFE)
    slave = result(SendStatus.SLAVE_NOT_AVAILABLE)
    assert tried.after(A, UNSAFE, 0) == TryAgain(B)
    assert tried.after(B, UNSAFE, 0) == TryAgain(A)
    assert tried.after(A, slave, 0) == Done(slave)


@pytest.mark.parametrize(("now_ms", "step"), [(999, TryAgain), (1000, Failed), (5000, Failed)])
def test_no_attempt_begins_after_the_deadline(now_ms, step):
    assert type(attempts(FREE, deadline_ms=1000).after(A, lost(), now_ms)) is step


def test_a_topic_without_queues_ends_the_attempts():
    error = lost()
    assert attempts(FREE, brokers="").after(A, error, 0) == Failed(error)


# Back-off


def delays(policy, *, brokers="a", count=8, chance=1.0, deadline_ms=60_000):
    """The delays before attempts that all fail, in milliseconds."""
    tried = attempts(policy, brokers=brokers, chance=chance, deadline_ms=deadline_ms)
    queue, now_ms, found = A, 0, []
    for _ in range(count):
        step = tried.after(queue, lost(), now_ms)
        if isinstance(step, Failed):
            break
        queue = step.queue
        now_ms += step.delay_ms
        found.append(step.delay_ms)
    return found


def test_delays_double_up_to_a_second():
    patient = RetryPolicy(7, backoff_ms=100)
    assert delays(patient) == [100, 200, 400, 800, 1000, 1000, 1000]
    assert delays(patient, chance=0.0) == [50, 100, 200, 400, 500, 500, 500]


def test_a_broker_that_has_not_failed_is_tried_without_a_delay():
    assert delays(RetryPolicy(4, backoff_ms=100), brokers="ab") == [0, 100, 200, 400]


def test_delays_stay_within_the_deadline():
    assert delays(RetryPolicy(9, backoff_ms=100), deadline_ms=1000) == [100, 200, 400]


def test_without_backoff_attempts_follow_immediately():
    assert delays(RetryPolicy(3)) == [0, 0, 0]


def test_attempts_at_a_chosen_queue_keep_their_order():
    assert delays(RetryPolicy(2, same_queue=True, backoff_ms=100)) == [0, 0]
