"""One queue of a consumer that polls."""

from client.received import received
from cometmq.client.consumer.lite.read_ahead import ReadAhead
from cometmq.client.consumer.shared.flow_limits import FlowLimits, Hold
from cometmq.client.message import PullResult, PullStatus
from cometmq.protocol.bodies.queues import MessageQueue


def pulled(*offsets, end=None):
    found = tuple(received(offset) for offset in offsets)
    status = PullStatus.FOUND if offsets else PullStatus.NO_MATCHED
    return PullResult(status, offsets[-1] + 1 if end is None else end, 0, 1000, found)


def begun(offset=0):
    ahead = ReadAhead(MessageQueue("orders", "broker-a", 0))
    ahead.begin(ahead.generation, offset)
    return ahead


def offsets_of(messages):
    return [message.queue_offset for message in messages]


def test_what_is_pulled_is_taken_in_order_a_pull_at_a_time():
    ahead = begun(5)
    ahead.add(0, pulled(5, 6, 7))
    ahead.add(0, pulled(8, 9))
    assert (ahead.count, ahead.size, ahead.next_offset, ahead.bounds) == (5, 20, 10, (5, 9))
    assert offsets_of(ahead.take(2)) == [5, 6]
    assert offsets_of(ahead.take(2)) == [7]
    assert ahead.is_between_batches
    assert offsets_of(ahead.take(9)) == [8, 9]
    assert (ahead.count, ahead.size, ahead.position, ahead.is_ready) == (0, 0, 10, False)


def test_what_is_in_hand_is_not_done():
    ahead = begun()
    ahead.add(0, pulled(0, 1, 2))
    assert ahead.done == 0
    ahead.take(2)
    assert (ahead.done, ahead.position) == (0, 2)
    ahead.put_down()
    assert ahead.done == 2
    ahead.take(1)
    assert ahead.done == 2


def test_what_a_filter_leaves_out_is_passed_over():
    ahead = begun()
    ahead.add(0, pulled(end=40))
    assert (ahead.position, ahead.next_offset) == (40, 40)
    ahead.add(0, pulled(42, 44, end=50))
    ahead.add(0, pulled(end=60))
    ahead.take(1)
    assert ahead.position == 43
    ahead.take(1)
    assert ahead.position == 60


def test_an_offset_that_is_not_there_is_left_for_one_that_is():
    ahead = begun(500)
    ahead.add(0, PullResult(PullStatus.OFFSET_ILLEGAL, 20, 0, 20))
    assert (ahead.position, ahead.next_offset) == (20, 20)


def test_a_seek_drops_what_is_here_and_what_was_asked_for_before():
    ahead = begun()
    ahead.add(0, pulled(0, 1, 2))
    ahead.take(1)
    before = ahead.generation
    ahead.seek(10)
    assert (ahead.count, ahead.size, ahead.position, ahead.done) == (0, 0, 10, 10)
    assert not ahead.add(before, pulled(3, 4))
    assert (ahead.next_offset, ahead.is_ready) == (10, False)
    assert ahead.add(ahead.generation, pulled(10))
    assert offsets_of(ahead.take(9)) == [10]


def test_a_seek_wins_against_the_search_for_the_start():
    ahead = ReadAhead(MessageQueue("orders", "broker-a", 0))
    generation = ahead.generation
    ahead.seek(7)
    ahead.begin(generation, 3)
    assert ahead.position == 7


def test_a_commit_puts_down_as_far_as_it_goes():
    ahead = begun()
    ahead.add(0, pulled(0, 1, 2, 3))
    ahead.take(4)
    ahead.put_down_to(9)
    assert ahead.done == 0
    ahead.put_down_to(2)
    assert ahead.done == 2
    ahead.put_down_to(1)
    assert ahead.done == 2
    ahead.put_down_to(4)
    assert (ahead.done, ahead.in_hand) == (4, None)


def test_it_holds_back_past_each_limit():
    ahead = begun()
    ahead.add(0, pulled(0, 1, 2))
    assert ahead.hold(FlowLimits(messages=3)) is None
    assert ahead.hold(FlowLimits(messages=2)) is Hold.MESSAGES
    assert ahead.hold(FlowLimits(size=12)) is None
    assert ahead.hold(FlowLimits(size=11)) is Hold.SIZE
    ahead.add(0, pulled(30))
    assert ahead.hold(FlowLimits(span=30)) is None
    assert ahead.hold(FlowLimits(span=29)) is Hold.SPAN
    ahead.take(3)
    assert ahead.hold(FlowLimits(span=1)) is None
