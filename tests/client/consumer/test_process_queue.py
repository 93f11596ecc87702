"""The process queue against a sorted dict."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from client.received import received
from cometmq.client.consumer.push.process_queue import ProcessQueue
from cometmq.client.consumer.shared.flow_limits import FlowLimits, Hold
from searches import examples


def filled(*offsets, size=10):
    queue = ProcessQueue()
    queue.add([received(offset, b"x" * size) for offset in offsets])
    return queue


def offsets_of(messages):
    return [message.queue_offset for message in messages]


class Model(RuleBasedStateMachine):
    """A dict of offset to size and whether it is taken, looked at in order."""

    def __init__(self):
        super().__init__()
        self.queue = ProcessQueue()
        self.model: dict[int, list[int | bool]] = {}
        self.end = 0

    def taken(self):
        return sorted(offset for offset, entry in self.model.items() if entry[1])

    def waiting(self):
        return sorted(self.model.keys() - set(self.taken()))

    @rule(offsets=st.lists(st.integers(0, 60), max_size=8), size=st.integers(0, 5))
    def add_in_any_order(self, offsets, size):
        fresh = set(offsets) - self.model.keys()
        assert self.queue.add([received(offset, b"x" * size) for offset in offsets]) == len(fresh)
        self.note(fresh, size)

    @rule(steps=st.lists(st.integers(0, 3), max_size=8), size=st.integers(0, 5))
    def add_at_the_end(self, steps, size):
        fresh = [self.end + sum(steps[: rank + 1]) + rank for rank in range(len(steps))]
        assert self.queue.add([received(offset, b"x" * size) for offset in fresh]) == len(fresh)
        self.note(fresh, size)

    def note(self, fresh, size):
        for offset in fresh:
            self.model[offset] = [size, False]
            self.end = max(self.end, offset + 1)

    @rule(count=st.integers(0, 6))
    def take(self, count):
        expected = self.waiting()[:count]
        assert offsets_of(self.queue.take(count)) == expected
        for offset in expected:
            self.model[offset][1] = True

    @rule(offsets=st.lists(st.integers(0, 60), max_size=5), share=st.integers(0, 3))
    def done(self, offsets, share):
        ending = offsets + self.taken()[:share] + self.taken()[-share:]
        was_empty = not self.model
        for offset in set(ending) & set(self.taken()):
            del self.model[offset]
        expected = None if was_empty else min(self.model, default=self.end)
        assert self.queue.done(ending) == expected

    @rule()
    def commit(self):
        taken = self.taken()
        assert self.queue.commit() == (taken[-1] + 1 if taken else None)
        for offset in taken:
            del self.model[offset]

    @rule(data=st.data())
    def give_back(self, data):
        some = data.draw(st.lists(st.sampled_from(self.taken() or [61])))
        self.queue.give_back(some)
        for offset in set(some) & self.model.keys():
            self.model[offset][1] = False

    @rule()
    def rollback(self):
        self.queue.rollback()
        for offset in self.taken():
            self.model[offset][1] = False

    @precondition(lambda self: len(self.model) > 20)
    @rule()
    def clear(self):
        self.queue.clear()
        self.model, self.end = {}, 0

    @invariant()
    def agrees(self):
        queue, model = self.queue, self.model
        assert len(queue) == len(model)
        assert queue.waiting == len(self.waiting())
        assert queue.size == sum(size for size, _ in model.values())
        assert queue.lowest == min(model, default=None)
        assert queue.span == (max(model) - min(model) if model else 0)


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=examples(80), stateful_step_count=40)


def test_the_lowest_that_is_out_is_what_is_committed():
    queue = filled(5, 6, 7, 8)
    queue.take(4)
    assert queue.done([6]) == 5
    assert queue.done([5]) == 7
    assert queue.done([7, 8]) == 9
    assert queue.done([8]) is None


def test_what_nobody_took_is_not_done():
    queue = filled(5, 6)
    assert queue.done([5, 6]) == 5
    assert len(queue) == 2


def test_a_listener_that_comes_late_after_a_reset_commits_nothing():
    queue = filled(100, 101)
    queue.take(2)
    queue.clear()
    assert queue.done([100, 101]) is None
    queue.add([received(3)])
    assert queue.done([100, 101]) == 3


def test_a_dropped_queue_takes_and_commits_nothing():
    queue = filled(5, 6)
    queue.take(1)
    queue.drop()
    assert queue.is_dropped
    assert queue.done([5]) is None
    assert queue.commit() is None
    assert queue.add([received(7)]) == 0
    assert queue.take(5) == []
    assert (len(queue), queue.size, queue.span) == (0, 0, 0)


def test_flow_control():
    limits = FlowLimits(messages=3, size=100, span=10)
    assert filled(1, 2, 3).hold(limits) is None
    assert filled(1, 2, 3, 4).hold(limits) is Hold.MESSAGES
    assert filled(1, 2, size=50).hold(limits) is None
    assert filled(1, 2, size=51).hold(limits) is Hold.SIZE
    assert filled(1, 11).hold(limits) is None
    assert filled(1, 12).hold(limits) is Hold.SPAN
    assert filled(1, 12).hold(FlowLimits(span=None)) is None


def test_limits_of_a_topic_are_shared_by_its_queues():
    assert FlowLimits() == FlowLimits(1000, 104_857_600, 2000)
    assert FlowLimits().shared(4) == FlowLimits()
    assert FlowLimits().shared(4, messages=100, size=1000) == FlowLimits(25, 250, 2000)
    assert FlowLimits().shared(8, messages=5, size=0) == FlowLimits(1, 1, 2000)


def test_orderly_messages_come_again_in_their_order():
    queue = filled(1, 2, 3, 4)
    first = queue.take(2)
    queue.give_back(offsets_of(first))
    assert offsets_of(queue.take(3)) == [1, 2, 3]
    queue.rollback()
    assert offsets_of(queue.take(9)) == [1, 2, 3, 4]
    assert queue.commit() == 5
    assert queue.commit() is None
