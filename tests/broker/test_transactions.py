"""Half messages: decided at once, when asked, or never; each comes once, or never."""

from collections import Counter
from random import Random
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.works import PRODUCER, at_work, new
from cometmq.broker.delivery.half_ledger import HalfLedger
from cometmq.broker.delivery.half_message import half_of, is_half
from cometmq.broker.durable_replies import SafeAnswers
from cometmq.broker.handlers.transaction import TransactionHandlers
from cometmq.errors import DiskFull, Malformed, Refused, Unreachable
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.headers.transaction import EndTransactionHeader, ResumeCheckHeader
from cometmq.protocol.records.message import unpack_record
from cometmq.protocol.records.message_id import OffsetId
from cometmq.store.config import FlushDiskType
from searches import examples
from store.rig import HOST, NOON_MS

HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
AWAY = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "CID_RMQ_SYS_TRANS"
UNKNOWN, COMMIT, ROLLBACK = 0, 8, 12
TIMEOUT_MS, INTERVAL_MS, CHECKS = 6_000, 60_000, 15


def prepare(works, body=b"hello", **properties):
    """A half message; where it is stored."""
    message = new("T", 2, body, PGROUP="makers", TRAN_MSG="true", **properties)
    message.born_ms = works.clock.wall_ms()
    return works.intake.put(half_of(message), works.clock.wall_ms())


def ending(stored, decision, group="makers", **fields):
    return EndTransactionHeader(
        producer_group=group,
        tran_state_table_offset=stored.queue_offset,
        commit_log_offset=stored.physical_offset,
        commit_or_rollback=decision,
        msg_id="U",
        **fields,
    )


def answering(question, decision):
    header, _ = question
    return EndTransactionHeader(
        producer_group="makers",
        tran_state_table_offset=header.tran_state_table_offset,
        commit_log_offset=header.commit_log_offset,
        commit_or_rollback=decision,
        from_transaction_check=True,
        msg_id=header.msg_id or "",
        transaction_id=header.transaction_id,
    )


async def end(works, ask):
    room = TransactionHandlers(works.transactions, SafeAnswers(works.topics, works.intake))
    return await works.answer(room.end, ask)


async def resume(works, message_id):
    room = TransactionHandlers(works.transactions, SafeAnswers(works.topics, works.intake))
    return await works.answer(room.resume, ResumeCheckHeader(msg_id=message_id))


def progress(works):
    return works.transactions.ledger.progress, works.transactions.ledger.op_progress


def test_a_half_message_says_where_it_belongs():
    async def story(works):
        before = {"TRANSACTION_CHECK_TIMES": "9", "TRAN_PREPARED_QUEUE_OFFSET": "7"}
        message = new("T", 2, b"x", PGROUP="makers", TRAN_MSG="true", TAGS="a", DELAY="3", **before)
        message.sys_flag = MessageFlag.PREPARED | MessageFlag.COMPRESSED
        half = half_of(message)
        assert (half.topic, half.queue_id, half.sys_flag) == (HALF, 0, MessageFlag.COMPRESSED)
        works.intake.put(half, works.clock.wall_ms())
        (stored,) = works.stored(HALF)
        assert stored.properties == {
            "PGROUP": "makers", "TRAN_MSG": "true", "TAGS": "a", "REAL_TOPIC": "T", "REAL_QID": "2",
        }  # fmt: skip
        assert works.stored("T", 2) == []

    at_work(story)


@pytest.mark.parametrize(
    ("message", "is_one"),
    [
        (new(TRAN_MSG="true"), True),
        (new(TRAN_MSG="TRUE"), True),
        (new(TRAN_MSG="false"), False),
        (new(X_TRAN_MSG="true"), False),
        (new(), False),
        (new(TRAN_MSG="true", DELAY="3"), True),
        (new(TRAN_MSG="true", reconsume_times=1), True),
        (new(TRAN_MSG="true", DELAY="3", reconsume_times=1), False),
    ],
)
def test_what_is_a_half_message(message, is_one):
    assert is_half(message) == is_one


def test_a_commit_puts_the_message_where_it_belongs_and_an_op():
    async def story(works):
        prepare(works, b"other")
        half = prepare(works, b"x", TAGS="a", UNIQ_KEY="U")
        assert (await end(works, ending(half, COMMIT))).code == 0
        (message,) = works.stored("T", 2)
        assert (message.body, message.flag) == (b"x", 5)
        assert (message.born_ms, message.born_host) == (NOON_MS, PRODUCER)
        assert message.sys_flag == MessageFlag.COMMIT
        assert message.prepared_offset == half.physical_offset
        assert message.properties == {
            "PGROUP": "makers", "TRAN_MSG": "true", "TAGS": "a", "UNIQ_KEY": "U",
            "REAL_TOPIC": "T", "REAL_QID": "2",
        }  # fmt: skip
        (op,) = works.stored(OP)
        assert (op.body, op.properties) == (b"1", {"TAGS": "d"})
        assert works.topics.get(OP).write_queue_nums == 1
        assert works.topics.file.is_saved

    at_work(story)


def test_a_rollback_is_an_op_alone():
    async def story(works):
        half = prepare(works)
        assert (await end(works, ending(half, ROLLBACK))).code == 0
        assert works.stored("T", 2) == []
        assert [op.body for op in works.stored(OP)] == [b"0"]

    at_work(story)


def test_unknown_changes_nothing():
    async def story(works):
        half = prepare(works)
        log_end = works.store.log_bounds[1]
        assert (await end(works, ending(half, UNKNOWN))).code == 0
        assert works.store.log_bounds[1] == log_end
        assert progress(works) == (0, 0)

    at_work(story)


def test_what_does_not_agree_is_refused_and_changes_nothing():
    async def story(works):
        half = prepare(works)
        other = works.put("T", 0, PGROUP="makers")
        good = ending(half, COMMIT)
        log_end = works.store.log_bounds[1]
        for wrong, reason in [
            (ending(half, COMMIT, group="others"), "producer group wrong"),
            (ending(half, 4), "commitOrRollback is 4"),
            (ending(half, -1), "commitOrRollback is -1"),
            (replaced(good, tran_state_table_offset=1), "state table offset wrong"),
            (replaced(good, commit_log_offset=1), "Find prepared transaction message failed"),
            (replaced(good, commit_log_offset=-1), "Find prepared transaction message failed"),
            (replaced(good, commit_log_offset=2**62), "Find prepared transaction message failed"),
            (ending(other, COMMIT), "Find prepared transaction message failed"),
        ]:
            with pytest.raises(Refused, match=reason) as refused:
                await end(works, wrong)
            assert refused.value.code == ResponseCode.SYSTEM_ERROR
        assert works.store.log_bounds[1] == log_end
        assert (await end(works, good)).code == 0

    at_work(story)


def replaced(ask, **fields):
    values = {name: getattr(ask, name) for name in ask.__struct_fields__}
    return EndTransactionHeader(**(values | fields))


@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("second", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("is_killed", [False, True])
def test_the_first_decision_stands(first, second, is_killed):
    async def story(works):
        prepare(works, b"open")  # so that progress does not tell
        half = prepare(works)
        await end(works, ending(half, first))
        if is_killed:
            await works.kill()
        with pytest.raises(Refused, match="ended before"):
            await end(works, ending(half, second))
        assert works.bodies("T", 2) == ([b"hello"] if first == COMMIT else [])

    at_work(story)


def test_a_commit_for_which_there_is_no_room_can_be_said_again():
    async def story(works):
        half = prepare(works)
        put, works.store.put = works.store.put, Mock(side_effect=DiskFull("no room"))
        for decision in (COMMIT, ROLLBACK):
            with pytest.raises(Refused) as refused:
                await end(works, ending(half, decision))
            assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
        works.store.put = put
        await end(works, ending(half, COMMIT))
        assert works.bodies("T", 2) == [b"hello"]

    at_work(story)


def test_a_commit_without_room_for_its_op_stands():
    async def story(works):
        half = prepare(works)
        put = works.store.put
        works.store.put = lambda new, now_ms, **_: put(new, now_ms) if new.topic == "T" else fail()
        assert (await end(works, ending(half, COMMIT))).code == 0
        works.store.put = put
        with pytest.raises(Refused, match="ended before"):
            await end(works, ending(half, ROLLBACK))
        assert works.bodies("T", 2) == [b"hello"]
        assert progress(works) == (1, 0)

    at_work(story)


def fail():
    raise DiskFull("no room")


def test_the_producer_is_asked_when_its_time_is_over():
    async def story(works):
        link = works.producer("makers")
        half = prepare(works, b"x", UNIQ_KEY="U", TAGS="a")
        await works.clock.advance(TIMEOUT_MS - 1)
        assert link.asked == []
        await works.clock.advance(1)
        ((header, body),) = link.asked
        again = works.stored(HALF)[1]
        assert (header.tran_state_table_offset, header.commit_log_offset) == (
            again.queue_offset, again.physical_offset,
        )  # fmt: skip
        assert (header.msg_id, header.transaction_id) == ("U", "U")
        assert header.offset_msg_id == str(OffsetId(HOST, again.physical_offset))
        asked = unpack_record(body)
        assert (asked.topic, asked.queue_id, asked.body, asked.flag) == ("T", 2, b"x", 5)
        assert (asked.queue_offset, asked.physical_offset) == (1, again.physical_offset)
        assert asked.properties == {
            "PGROUP": "makers", "TRAN_MSG": "true", "UNIQ_KEY": "U", "TAGS": "a",
            "REAL_TOPIC": "T", "REAL_QID": "2", "TRANSACTION_CHECK_TIMES": "1",
        }  # fmt: skip
        first = {"TRAN_PREPARED_QUEUE_OFFSET": str(half.queue_offset)}
        assert again.properties == asked.properties | first
        assert asked.born_ms == again.born_ms == NOON_MS
        await end(works, answering(link.asked[0], COMMIT))
        assert works.bodies("T", 2) == [b"x"]
        await works.clock.advance(20 * INTERVAL_MS)
        assert len(link.asked) == 1
        assert progress(works) == (2, 1)

    at_work(story)


@pytest.mark.parametrize("immunity", [{}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "6"}])
def test_nobody_is_asked_a_part_of_a_millisecond_early(immunity):
    """The clocks' milliseconds begin at different moments: one may show a wait's end, one not."""

    async def story(works):
        link = works.producer("makers")
        prepare(works, **immunity)
        await works.clock.advance(1)
        works.clock.jump(-1)
        await works.clock.advance(TIMEOUT_MS - 1)
        assert link.asked == []
        assert works.store.bounds(HALF, 0) == (0, 1)  # nor is it put again
        await works.clock.advance(1)
        assert len(link.asked) == 1
        assert works.stored(HALF)[1].stored_ms == NOON_MS + TIMEOUT_MS

    at_work(story)


def test_nobody_is_asked_again_a_part_of_a_millisecond_early():
    async def story(works):
        link = works.producer("makers")
        prepare(works)
        await works.clock.advance(TIMEOUT_MS + 1)
        works.clock.jump(-1)
        await works.clock.advance(INTERVAL_MS - 1)
        assert len(link.asked) == 1
        await works.clock.advance(1)
        assert len(link.asked) == 2

    at_work(story)


def test_one_that_is_decided_is_not_asked_about():
    async def story(works):
        link = works.producer("makers")
        for decision in (COMMIT, ROLLBACK, COMMIT):
            await end(works, ending(prepare(works), decision))
        await works.clock.advance(INTERVAL_MS)
        assert link.asked == []
        assert works.store.bounds(HALF, 0) == (0, 3)

    at_work(story)


def test_who_never_knows_is_asked_so_often_and_no_more():
    async def story(works):
        link = works.producer("makers")
        prepare(works, b"x")
        for check in range(CHECKS):
            await works.clock.advance(INTERVAL_MS if check else TIMEOUT_MS)
            await end(works, answering(link.asked[-1], UNKNOWN))
            assert len(link.asked) == check + 1
            times = unpack_record(link.asked[-1][1]).properties["TRANSACTION_CHECK_TIMES"]
            assert times == str(check + 1)
            assert works.bodies(AWAY) == []
        await works.clock.advance(100 * INTERVAL_MS)
        assert len(link.asked) == CHECKS
        (away,) = works.stored(AWAY)
        assert (away.body, away.properties["REAL_TOPIC"]) == (b"x", "T")
        assert works.topics.get(AWAY).write_queue_nums == 1
        assert works.bodies("T", 2) == []
        assert works.transactions.ledger.progress == works.store.bounds(HALF, 0)[1]

    at_work(story)


def test_each_waits_for_its_own_time():
    async def story(works):
        link = works.producer("makers")
        prepare(works, b"1")
        await works.clock.advance(4_000)
        prepare(works, b"2")
        await works.clock.advance(2_000)
        assert bodies(link) == [b"1"]
        await works.clock.advance(4_000)
        assert bodies(link) == [b"1", b"2"]
        await works.clock.advance(10_000)
        prepare(works, b"3")
        await works.clock.advance(TIMEOUT_MS)
        assert bodies(link) == [b"1", b"2", b"3"]
        await works.clock.advance(INTERVAL_MS - 20_000)
        assert bodies(link) == [b"1", b"2", b"3", b"1"]

    at_work(story)


def bodies(link):
    return [unpack_record(body).body for _, body in link.asked]


def test_a_producer_may_say_how_long_it_takes():
    async def story(works):
        link = works.producer("makers")
        half = prepare(works, b"slow", CHECK_IMMUNITY_TIME_IN_SECONDS="200")
        prepare(works, b"fast", CHECK_IMMUNITY_TIME_IN_SECONDS="2")
        prepare(works, b"usual")
        await works.clock.advance(2_000)
        assert bodies(link) == [b"fast"]
        await works.clock.advance(4_000)
        assert bodies(link) == [b"fast", b"usual"]
        for question in link.asked:
            await end(works, answering(question, ROLLBACK))
        await works.clock.advance(193_000)
        assert len(link.asked) == 2
        assert works.transactions.ledger.progress > half.queue_offset  # it is put again meanwhile
        await works.clock.advance(1_000)
        assert bodies(link)[2:] == [b"slow"]
        assert unpack_record(link.asked[2][1]).properties["TRANSACTION_CHECK_TIMES"] == "1"

    at_work(story)


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("immunity", [None, "300"])
def test_the_place_that_the_producer_was_told_first_stays_good(is_killed, immunity):
    async def story(works):
        more = {} if immunity is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": immunity}
        works.producer("makers")
        half = prepare(works, **more)
        await works.pass_ms(TIMEOUT_MS + 2 * INTERVAL_MS)  # it was put again more than once
        assert works.transactions.ledger.progress > half.queue_offset
        if is_killed:
            await works.kill()
        link = works.producer("makers")
        await end(works, ending(half, COMMIT))
        await works.clock.advance(10 * INTERVAL_MS)
        assert link.asked == []
        assert works.bodies("T", 2) == [b"hello"]

    at_work(story)


def test_the_producers_of_a_group_take_turns_and_the_deaf_are_passed_over():
    async def story(works):
        links = [works.producer("makers", port) for port in (1, 2, 3)]
        works.producer("others", 4)
        links[1].failure = Unreachable("gone")
        for number in range(6):
            prepare(works, str(number).encode())
        await works.clock.advance(TIMEOUT_MS)
        assert [len(link.asked) for link in links] in ([2, 0, 4], [4, 0, 2])
        assert sorted(bodies(links[0]) + bodies(links[2])) == [b"%d" % n for n in range(6)]

    at_work(story)


def test_without_a_producer_it_is_counted_all_the_same_and_told_once(caplog):
    async def story(works):
        for _ in range(3):
            prepare(works)
        await works.clock.advance(TIMEOUT_MS + INTERVAL_MS)
        times = [half.properties.get("TRANSACTION_CHECK_TIMES") for half in works.stored(HALF)]
        assert times == [None] * 3 + ["1"] * 3 + ["2"] * 3
        link = works.producer("makers")
        await works.clock.advance(INTERVAL_MS)
        assert len(link.asked) == 3
        link.failure = Unreachable("gone")
        await works.clock.advance(INTERVAL_MS)

    at_work(story)
    told = [each for each in caplog.records if "no producer of group 'makers'" in each.message]
    assert len(told) == 2


def test_one_that_is_too_old_is_put_away_unasked():
    async def story(works):
        link = works.producer("makers")
        prepare(works)
        works.clock.jump(72 * 3_600_000 + 1)
        await works.clock.advance(TIMEOUT_MS)
        assert link.asked == []
        assert works.bodies(AWAY) == [b"hello"]

    at_work(story)


def test_a_half_message_that_has_no_room_for_a_count_is_put_away():
    async def story(works):
        prepare(works, TAGS="a" * 32_700)
        await works.clock.advance(TIMEOUT_MS)
        assert works.bodies(AWAY) == [b"hello"]

    at_work(story, {"mapped_file_size_commit_log": 256 << 10})


def test_no_room_delays_the_question():
    async def story(works):
        link = works.producer("makers")
        prepare(works)
        put, works.store.put = works.store.put, Mock(side_effect=DiskFull("no room"))
        await works.clock.advance(TIMEOUT_MS)
        assert link.asked == []
        works.store.put = put
        await works.clock.advance(10_000)
        assert len(link.asked) == 1

    at_work(story)


def test_a_half_message_that_fails_keeps_no_other_waiting(caplog):
    async def story(works):
        link = works.producer("makers")
        bad, good = prepare(works, b"bad"), prepare(works, b"good")
        read = works.transactions.halves.read
        bugs = {bad.queue_offset: 2}

        def failing(offset):
            if bugs.get(offset):
                bugs[offset] -= 1
                raise RuntimeError("a bug")
            return read(offset)

        works.transactions.halves.read = failing
        await works.clock.advance(TIMEOUT_MS)
        assert bodies(link) == [b"good"]
        assert "a bug" in caplog.text
        await works.clock.advance(2 * 10_000)
        assert bodies(link) == [b"good", b"bad"], "it gets its turn"
        assert good.queue_offset == 1

    at_work(story)


def test_a_time_that_is_beyond_use_is_none():
    """Nor does it end the checks of all others."""

    async def story(works):
        link = works.producer("makers")
        prepare(works, b"for ever", CHECK_IMMUNITY_TIME_IN_SECONDS="9" * 5_000)
        prepare(works, b"as usual")
        await works.clock.advance(TIMEOUT_MS)
        assert bodies(link) == [b"for ever", b"as usual"]

    at_work(story)


def test_nothing_runs_while_nothing_is_pending():
    async def story(works):
        await end(works, ending(prepare(works), COMMIT))
        await works.clock.advance(2 * INTERVAL_MS)
        timers = sum(timer.call is not None for _, _, timer in works.clock._timers)
        await works.clock.advance(100 * INTERVAL_MS)
        assert sum(timer.call is not None for _, _, timer in works.clock._timers) == timers
        assert works.arrivals.count == 19  # 18 levels, and this

    at_work(story)


def test_progress_stands_in_the_offsets_as_the_original_has_it():
    async def story(works):
        first = prepare(works)
        await end(works, ending(prepare(works), COMMIT))
        await works.clock.advance(1_000)
        await end(works, ending(first, COMMIT))
        await works.clock.advance(999)
        assert works.offsets.topics_of(GROUP) == []
        await works.clock.advance(1)
        assert works.offsets.get(GROUP, HALF, 0) == 2
        assert works.offsets.get(GROUP, OP, 0) == 2

    at_work(story)


def test_a_power_cut_takes_no_commit_that_the_offsets_tell_of():
    async def story(works):
        half = prepare(works)
        await works.store.flush()
        await end(works, ending(half, COMMIT))
        await works.pass_ms(1_000)
        await works.cut_power(Random(3))
        assert works.bodies("T", 2) == [b"hello"]

    at_work(story)


def test_a_store_of_the_original_goes_on():
    """It puts a half message again without a note of its first place, or with one if immune."""

    async def story(works):
        now_ms = works.clock.wall_ms()
        for text in (
            {"TRANSACTION_CHECK_TIMES": "14"},
            {"CHECK_IMMUNITY_TIME_IN_SECONDS": "600", "TRAN_PREPARED_QUEUE_OFFSET": "0"},
        ):
            half = new(HALF, 0, b"x", PGROUP="makers", REAL_TOPIC="T", REAL_QID="2", **text)
            works.store.put(half, now_ms)
        works.store.put(new(OP, 0, b"0", TAGS="d"), now_ms)  # ends the second by its first place
        works.store.put(new(OP, 0, b"junk", TAGS="d"), now_ms)
        works.store.put(new(HALF, 0, b"y", PGROUP="makers", REAL_TOPIC="T", REAL_QID="2"), now_ms)
        await works.kill()
        assert progress(works) == (2, 2)
        link = works.producer("makers")
        await works.clock.advance(TIMEOUT_MS)
        assert bodies(link) == [b"y"]

    at_work(story)


def test_one_that_was_put_away_gets_another_chance():
    async def story(works):
        link = works.producer("makers")
        prepare(works)
        await works.clock.advance(TIMEOUT_MS + INTERVAL_MS)
        assert len(link.asked) == 1
        (away,) = works.stored(AWAY)
        message_id = str(OffsetId(HOST, away.physical_offset))
        assert (await resume(works, message_id)).code == 0
        half = works.stored(HALF)[-1]
        assert half.properties["TRANSACTION_CHECK_TIMES"] == "0"
        assert "TRAN_PREPARED_QUEUE_OFFSET" not in half.properties
        await works.kill()
        link = works.producer("makers")
        await works.clock.advance(TIMEOUT_MS)
        await end(works, answering(link.asked[0], COMMIT))
        assert works.bodies("T", 2) == [b"hello"]

    at_work(story, transaction_check_max=1)


def test_only_what_was_put_away_can_be_resumed():
    async def story(works):
        half = prepare(works)
        log_end = works.store.log_bounds[1]
        for offset in (half.physical_offset, log_end, -1):
            with pytest.raises(Refused, match="is not in TRANS_CHECK_MAX_TIME_TOPIC"):
                await resume(works, str(OffsetId(HOST, offset)))
        with pytest.raises(Malformed):
            await resume(works, "junk")
        with pytest.raises(Refused, match="msgId is missing"):
            await resume(works, None)
        assert works.store.log_bounds[1] == log_end

    at_work(story)


def test_the_ledger_forgets_what_is_closed():
    ledger = HalfLedger(0, 0)
    ledger.move(0, 1, is_sent=True)
    ledger.move(1, 2, is_sent=False)
    ledger.move(2, 3, is_sent=True)
    assert [ledger.place(offset) for offset in range(5)] == [3, 3, None, 3, 4]
    assert ledger.progress == 3
    ledger.op(3)
    ledger.close(3)
    assert [ledger.place(offset) for offset in range(5)] == [None, None, None, None, 4]
    assert (ledger.progress, ledger.op_progress) == (4, 1)
    assert not ledger._current
    assert not ledger._known
    assert not ledger._closed


def test_a_kill_after_the_end_of_a_copy_brings_none_of_its_places_back():
    async def story(works):
        link = works.producer("makers")
        half = prepare(works)
        await works.clock.advance(TIMEOUT_MS + INTERVAL_MS)
        assert len(link.asked) == 2
        works.offsets.forget_group(GROUP)  # as if nothing of it had been kept
        await works.offsets.file.save()
        await end(works, ending(half, COMMIT))
        await works.kill()
        assert progress(works) == (3, 1)
        assert works.bodies("T", 2) == [b"hello"]

    at_work(story)


@pytest.mark.parametrize("fall", ["kill", "cut", "reopen"])
@pytest.mark.parametrize("checks", [0, 2])
@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_fall_between_a_commit_and_its_op_brings_nothing_twice(fall, checks, is_indexed):
    """By its unique key: without the index it comes again, as there."""

    async def story(works):
        link = works.producer("makers")
        prepare(works, b"other", UNIQ_KEY="V")
        half = prepare(works, b"x", UNIQ_KEY="U")
        if checks:
            await works.clock.advance(TIMEOUT_MS + (checks - 1) * INTERVAL_MS)
        put = works.store.put
        works.store.put = lambda new, now_ms, **_: put(new, now_ms) if new.topic == "T" else fail()
        await end(works, ending(half, COMMIT))
        works.store.put = put
        works.offsets.forget_group(GROUP)  # as if nothing of it had been kept
        await works.store.flush()
        await works.fall(fall)
        if is_indexed:
            with pytest.raises(Refused, match="ended before"):
                await end(works, ending(half, COMMIT))
        link = works.producer("makers")
        await works.clock.advance(INTERVAL_MS)
        assert (b"x" in bodies(link)) != is_indexed
        assert b"other" in bodies(link)
        assert works.bodies("T", 2) == [b"x"]

    at_work(story, {"message_index_enable": is_indexed})


def test_an_older_message_of_the_same_key_is_no_commit():
    async def story(works):
        first = prepare(works, b"1", UNIQ_KEY="U")
        await end(works, ending(first, COMMIT))
        second = prepare(works, b"2", UNIQ_KEY="U")
        works.put("T", 2, b"3", UNIQ_KEY="U")
        await works.kill()
        await end(works, ending(second, COMMIT))
        assert works.bodies("T", 2) == [b"1", b"3", b"2"]

    at_work(story)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("prepare"), st.sampled_from(["", "2", "90"])),
        st.tuples(st.just("end"), st.tuples(st.integers(0, 9), st.sampled_from([8, 12]))),
        st.tuples(st.just("answer"), st.tuples(st.integers(0, 9), st.sampled_from([8, 12]))),
        st.tuples(st.just("pass"), st.sampled_from([1, 900, 2_000, 6_000, 60_000])),
        st.tuples(st.just("kill"), st.just(0)),
        st.tuples(st.just("cut"), st.integers(0, 99)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=30,
)


class Producer:
    """What it prepared, what it was asked, and what it said that was not refused."""

    def __init__(self, works):
        self.works = works
        self.halves = {}
        self.said = {}
        self.times_asked = Counter()
        self.connect()

    def connect(self):
        self.link = self.works.producer("makers")

    def note_questions(self):
        self.times_asked.update(bodies(self.link))

    async def prepare(self, immunity):
        body = str(len(self.halves)).encode()
        more = {"CHECK_IMMUNITY_TIME_IN_SECONDS": immunity} if immunity else {}
        self.halves[body] = prepare(self.works, body, **more)
        await self.works.store.durable(self.halves[body])

    async def say(self, body, ask):
        try:
            assert (await end(self.works, ask)).code == 0
        except Refused:
            assert body in self.said or body in self.works.bodies(AWAY)
        else:
            assert body not in self.said
            self.said[body] = ask.commit_or_rollback

    async def do(self, step, value):
        match step:
            case "prepare":
                await self.prepare(value)
            case "end" if self.halves:
                body = list(self.halves)[value[0] % len(self.halves)]
                await self.say(body, ending(self.halves[body], value[1]))
            case "answer" if self.link.asked:
                question = self.link.asked[value[0] % len(self.link.asked)]
                await self.say(unpack_record(question[1]).body, answering(question, value[1]))
            case "pass":
                await self.works.pass_ms(value)
            case "kill" | "cut" | "reopen":
                self.note_questions()
                await self.works.fall(step, value)
                self.connect()


@settings(max_examples=examples(100))
@given(steps=steps)
def test_committed_comes_once_rolled_back_never_and_unknown_is_put_away(steps):
    checks = 3

    async def story(works):
        producer = Producer(works)
        for step, value in steps:
            await producer.do(step, value)
        await works.clock.advance(90_000 + (checks + 1) * INTERVAL_MS)
        producer.note_questions()
        said, away = producer.said, works.bodies(AWAY)
        committed = [body for body in said if said[body] == COMMIT]
        undecided = producer.halves.keys() - said.keys()
        assert sorted(works.bodies("T", 2)) == sorted(committed)
        if any(step == "cut" for step, _ in steps):  # that may repeat a question, or a putting away
            assert undecided <= set(away)
        else:
            assert sorted(away) == sorted(undecided)
            assert all(times <= checks for times in producer.times_asked.values())
            assert all(producer.times_asked[body] == checks for body in undecided)
        ledger = works.transactions.ledger
        assert ledger.progress == works.store.bounds(HALF, 0)[1]
        assert ledger.op_progress == works.store.bounds(OP, 0)[1]

    sync = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    at_work(story, sync, transaction_check_max=checks)
