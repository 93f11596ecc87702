"""An orderly push consumer on a fake broker: its locks, and what it does without them."""

import asyncio

from client.consumer.push_broker import Gate, PushBroker, Taken, consuming, settle
from cometmq.client.consumer.shared.outcomes import Commit, Rollback, Suspend
from cometmq.protocol.codes import RequestCode, ResponseCode


def broker_of(queues=1):
    return PushBroker(**{"T": queues, "%RETRY%G": 1})


def committed(broker):
    return broker.committed.get(("G", broker.queue("T")))


def test_a_queue_is_taken_once_it_is_locked_for_us():
    async def story():
        broker, taken = broker_of(2), Taken()
        broker.locked_by_others = {1}
        for queue_id in (0, 1):
            broker.put("T", queue_id, b"%d" % queue_id)
        async with consuming(broker, taken, orderly=True) as consumer:
            assert taken.bodies == ["0"]
            assert [queue.queue_id for queue in consumer.queues] == [0]
            broker.locked_by_others = set()
            await broker.clock.advance(1_000)  # and not at the next rebalance
            assert taken.bodies == ["0", "1"]
            assert set(broker.locks.values()) == {consumer.client_id}
        assert broker.locks == {}

    asyncio.run(story())


def test_locks_are_renewed_and_nothing_runs_with_an_old_one():
    async def story():
        broker, taken = broker_of(), Taken()
        broker.put("T", 0, b"a", b"b")
        async with consuming(broker, taken, orderly=True):
            assert taken.bodies == ["a", "b"]
            locks = broker.count(RequestCode.LOCK_BATCH_MQ)
            await broker.clock.advance(20_000)
            assert broker.count(RequestCode.LOCK_BATCH_MQ) == locks + 1
            broker.refuses[RequestCode.LOCK_BATCH_MQ] = ResponseCode.SYSTEM_ERROR
            await broker.clock.advance(31_000)
            broker.put("T", 0, b"c")
            await settle()
            assert taken.bodies == ["a", "b"], "the lock may be another's"
            # Another had it meanwhile and has done the third.
            broker.committed["G", broker.queue("T")] = 3
            broker.put("T", 0, b"d")
            del broker.refuses[RequestCode.LOCK_BATCH_MQ]
            await broker.clock.advance(20_000)
            assert taken.bodies == ["a", "b", "d"]

    asyncio.run(story())


def test_a_lock_that_is_anothers_costs_the_queue():
    async def story():
        broker, gate = broker_of(), Gate()
        broker.put("T", 0, b"a", b"b")
        async with consuming(broker, gate, orderly=True) as consumer:
            broker.locked_by_others = {0}
            await broker.clock.advance(20_000)
            assert consumer.queues == []
            broker.locked_by_others = set()
            await broker.clock.advance(20_000)
            assert consumer.queues == [], "a listener still has a message of it"
            gate.open()
            await broker.clock.advance(20_000)
            assert gate.ended == ["a", "a", "b"]
        assert committed(broker) == 2

    asyncio.run(story())


def test_a_queue_is_unlocked_when_its_listener_has_ended():
    async def story():
        broker, gate = broker_of(), Gate()
        broker.put("T", 0, b"a", b"b")
        async with consuming(broker, gate, orderly=True) as consumer:
            broker.others = ["127.0.0.1@aaa"]
            consumer._member.rebalance_soon()
            await settle()
            assert (consumer.queues, len(broker.locks)) == ([], 1)
            gate.open()
            await settle()
            assert (gate.ended, broker.locks, committed(broker)) == (["a"], {}, 1)

    asyncio.run(story())


def test_a_failure_suspends_its_queue():
    async def story():
        broker = broker_of()
        said = [Suspend(3), None, RuntimeError(), None]

        def answer(message):
            outcome = said.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        taken = Taken(answer)
        broker.put("T", 0, b"a", b"b")
        async with consuming(broker, taken, orderly=True):
            await broker.clock.advance(2_990)
            assert taken.bodies == ["a"]
            await broker.clock.advance(20)
            assert taken.bodies == ["a", "a", "b"]
            await broker.clock.advance(1_000)  # suspend_current_queue_time
            assert taken.bodies == ["a", "a", "b", "b"]
        assert committed(broker) == 2

    asyncio.run(story())


def test_what_fails_too_often_is_buried_and_if_that_fails_tried_again():
    async def story():
        broker, taken = broker_of(), Taken(lambda message: Suspend(0.01))
        broker.refuses[RequestCode.SEND_MESSAGE_V2] = ResponseCode.SYSTEM_ERROR
        broker.put("T", 0, b"a")
        async with consuming(broker, taken, orderly=True, max_reconsume_times=1):
            await broker.clock.advance(35)
            assert taken.bodies == ["a"] * 4
            assert committed(broker) is None
            del broker.refuses[RequestCode.SEND_MESSAGE_V2]
            await broker.clock.advance(10)
            ((header, body),) = broker.copies
            assert (header.topic, body) == ("%RETRY%G", b"a")
            assert header.reconsume_times >= header.max_reconsume_times == 1
            assert "DELAY" not in header.properties
            await broker.clock.advance(100)
            assert len(taken.bodies) == 5
        assert committed(broker) == 1

    asyncio.run(story())


def test_nothing_counts_before_it_is_committed_by_hand():
    async def story():
        broker = broker_of()
        said = [None, None, Rollback(), None, None, Commit(), None]
        taken = Taken(lambda message: said.pop(0))
        broker.put("T", 0, b"a", b"b", b"c", b"d")
        async with consuming(broker, taken, orderly=True, manual=True):
            await broker.clock.advance(1_000)
            assert taken.bodies == ["a", "b", "c", "a", "b", "c", "d"]
        assert committed(broker) == 3

    asyncio.run(story())


def test_a_reset_waits_for_the_call_that_is_out():
    async def story():
        broker, gate = broker_of(), Gate()
        broker.put("T", 0, b"a", b"b")
        async with consuming(broker, gate, orderly=True) as consumer:
            consumer._member.reset_offsets("T", {broker.queue("T"): 1})
            await settle()
            assert gate.begun == ["a"], "one call a queue at a time"
            gate.open()
            await settle()
            assert gate.ended == ["a", "b"]
        assert committed(broker) == 2

    asyncio.run(story())


def damaged(command):
    """A pull's answer whose first record does not say how long it is."""
    if command.body:
        size = int.from_bytes(command.body[:4])
        broken = command.body[: size - 1] + b"\x63"
        command.body = broken + command.body[size:]
    return command


def test_a_message_that_cannot_be_read_holds_up_nobody():
    class Broken(PushBroker):
        async def invoke(self, *words, **more):
            answer = await super().invoke(*words, **more)
            return damaged(answer) if words[1] == RequestCode.PULL_MESSAGE else answer

    async def story(orderly):
        broker = Broken(**{"T": 1, "%RETRY%G": 1})
        broker.put("T", 0, b"a", b"b")
        taken = Taken(lambda message: None if message.topic == "T" else Suspend())
        async with consuming(broker, taken, orderly=orderly):
            await broker.clock.advance(2_000)
            assert taken.bodies == ["a", "b"], "its body can be read, its topic cannot"
        assert (committed(broker), broker.sent_back, broker.copies) == (2, [], [])

    for orderly in (False, True):
        asyncio.run(story(orderly))
