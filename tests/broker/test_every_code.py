"""Every code of 4.9 has its row, and no request is so bad that it is not refused in clear words.

A test walks the table: each request is spoiled in every field, one at a time, and must then be
refused at once with a reason, and change nothing. Where it is fine all the same, `FINE` says why.
"""

import asyncio
from typing import NamedTuple

import pytest

from broker.walk import MAKES, Case, good_requests, spoiled, spoiled_bodies
from broker.whole import open_whole, pull_header
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.names import CHECKED_TOO_OFTEN_TOPIC
from cometmq.protocol.records.message import unpack_records
from cometmq.protocol.records.message_id import OffsetId
from cometmq.remoting.dispatch import FAILED

ANSWERED_S_MAX = 60  # a guard: on a clock that stands still, what waits for time never comes

# What brokers of 4.9 answer, by the number of each code.
OF_A_BROKER = {
    10, 11, 12, 14, 15, 17, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 43, 45,
    46, 50, 51, 52, 53, 54, 200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 300, 301, 302, 303,
    305, 306, 307, 308, 309, 310, 314, 315, 316, 317, 320, 321, 323, 324, 325, 328, 329,
}  # fmt: skip
NO_ACCOUNTS = "not supported: this version has no access control, and takes no aclEnable=true"
NO_CLASSES = "not supported: there are no filter classes; use tags, or SQL92"
DECLINED = dict.fromkeys((50, 51, 52, 53, 54), NO_ACCOUNTS) | dict.fromkeys((301, 302), NO_CLASSES)


class Fine(NamedTuple):
    """Fields that may be anything, or anything of a kind, and why."""

    codes: str
    fields: str
    how: tuple[str, ...]
    why: str
    writes: bool = False  # the request does what it asks for, so the state may change


SENDS = "SEND_MESSAGE SEND_MESSAGE_V2 SEND_BATCH_MESSAGE"
REPLIES = "SEND_REPLY_MESSAGE SEND_REPLY_MESSAGE_V2"
ANY_TEXT, ANY_NUMBER, ANY = ("text",), ("number",), ("text", "number")
FINE = [
    # What a message carries
    Fine(SENDS, "producer_group broker_name properties", ANY_TEXT, "carried as it is", True),
    Fine(SENDS, "default_topic", ANY_TEXT, "asked for only where the topic is new", True),
    Fine(SENDS, "default_topic_queue_nums", ANY_NUMBER, "the same, and bounded then", True),
    Fine(SENDS, "sys_flag flag born_timestamp", ANY_NUMBER, "the producer's own", True),
    Fine(SENDS, "reconsume_times max_reconsume_times", ANY_NUMBER, "matter to retries only", True),
    Fine(SENDS, "queue_id", ("number -",), "below 0: any queue", True),
    Fine("SEND_MESSAGE SEND_MESSAGE_V2", "body", ("",), "a message is any bytes", True),
    Fine(REPLIES, "producer_group default_topic broker_name", ANY_TEXT, "carried as it is", True),
    Fine(REPLIES, "default_topic_queue_nums", ANY_NUMBER, "a reply makes no topic", True),
    Fine(REPLIES, "sys_flag flag born_timestamp", ANY_NUMBER, "the producer's own", True),
    Fine(REPLIES, "reconsume_times max_reconsume_times", ANY_NUMBER, "carried as it is", True),
    Fine(REPLIES, "queue_id", ("number -",), "below 0: any queue", True),
    Fine(REPLIES, "body", ("",), "a message is any bytes", True),
    Fine(REPLIES, "properties", ANY_TEXT, "refused, as none waits for it, and yet kept: as there",
         True),
    # Reading
    Fine("PULL_MESSAGE", "queue_offset", ANY_NUMBER, "corrected, and a note is left of it", True),
    Fine("PULL_MESSAGE", "max_msg_nums", ("number 2",), "bounded by the settings"),
    Fine("PULL_MESSAGE", "sys_flag", ANY_NUMBER, "a set of bits", True),
    Fine("PULL_MESSAGE", "commit_offset", ANY_NUMBER, "a group may be anywhere", True),
    Fine("PULL_MESSAGE", "suspend_timeout_millis", ANY_NUMBER, "bounded; its commit counts", True),
    Fine("PULL_MESSAGE", "subscription", ANY_TEXT, "tags that no message has"),
    Fine("PULL_MESSAGE", "sub_version", ANY_NUMBER, "of no meaning with a subscription"),
    Fine("PULL_MESSAGE", "expression_type", ("text empty",), "tags"),
    Fine("QUERY_MESSAGE", "max_num", ("number 2",), "bounded by what a frame can hold"),
    Fine("QUERY_MESSAGE", "begin_timestamp end_timestamp", ANY_NUMBER, "any time"),
    Fine("SEARCH_OFFSET_BY_TIMESTAMP", "timestamp", ANY_NUMBER, "any time"),
    Fine("QUERY_CONSUME_QUEUE", "index", ANY_NUMBER, "not there: success and no body, as there"),
    Fine("QUERY_CONSUME_QUEUE", "count", ANY_NUMBER, "bounded"),
    Fine("QUERY_CONSUME_QUEUE", "queue_id", ANY_NUMBER, "an unknown queue is an empty one"),
    Fine("QUERY_CONSUME_QUEUE", "consumer_group", ANY_TEXT, "reported as not online"),
    # Which of several brokers is meant: its own address says so already
    Fine("PULL_MESSAGE QUERY_CONSUMER_OFFSET SEARCH_OFFSET_BY_TIMESTAMP GET_MAX_OFFSET "
         "GET_MIN_OFFSET GET_EARLIEST_MSG_STORETIME CONSUME_MESSAGE_DIRECTLY",
         "broker_name", ANY_TEXT, "not looked at"),
    Fine("UPDATE_CONSUMER_OFFSET CONSUMER_SEND_MSG_BACK", "broker_name", ANY_TEXT,
         "not looked at", True),
    # Questions about what is not there have an empty answer
    Fine("QUERY_CONSUMER_OFFSET", "consumer_group", ANY_TEXT, "a young queue starts at 0 for all"),
    Fine("QUERY_CONSUMER_OFFSET SEARCH_OFFSET_BY_TIMESTAMP GET_MAX_OFFSET GET_MIN_OFFSET "
         "GET_EARLIEST_MSG_STORETIME", "topic queue_id", ANY,
         "an unknown queue is answered as an empty one"),
    Fine("UPDATE_CONSUMER_OFFSET", "queue_id", ANY_NUMBER, "stored for any queue", True),
    Fine("GET_CONSUME_STATS", "consumer_group topic", ANY_TEXT, "an empty table"),
    Fine("INVOKE_BROKER_TO_GET_CONSUMER_STATUS", "topic client_addr", ANY_TEXT, "an empty table"),
    Fine("QUERY_TOPIC_CONSUME_BY_WHO", "topic", ANY_TEXT, "no group"),
    Fine("QUERY_CONSUME_TIME_SPAN", "group", ANY_TEXT, "a group that has consumed nothing"),
    Fine("QUERY_CORRECTION_OFFSET", "filter_groups compare_group topic", ANY_TEXT,
         "an empty table"),
    Fine("UNREGISTER_CLIENT", "client_id producer_group consumer_group", ANY_TEXT,
         "who is not there cannot leave", True),
    Fine("CLONE_GROUP_OFFSET", "topic", ANY_TEXT, "blank: all topics; unknown: none", True),
    Fine("CHECK_CLIENT_CONFIG", "body", ("unfit",), "without a subscription nothing is checked"),
    # Orders that name no bound
    Fine("UPDATE_CONSUMER_OFFSET", "commit_offset", ANY_NUMBER,
         "a group may be anywhere, as there", True),
    Fine("UPDATE_AND_CREATE_TOPIC", "perm", ANY_NUMBER, "a set of bits", True),
    Fine("UPDATE_AND_CREATE_TOPIC", "default_topic", ANY_TEXT, "of no meaning here", True),
    Fine("UPDATE_AND_CREATE_TOPIC", "topic_sys_flag", ANY_NUMBER, "a set of bits", True),
    Fine("UPDATE_BROKER_CONFIG", "body", ("none",), "changes nothing"),
    Fine("INVOKE_BROKER_TO_RESET_OFFSET", "timestamp", ANY_NUMBER, "any time", True),
    Fine("CONSUMER_SEND_MSG_BACK", "delay_level", ANY_NUMBER,
         "below 0: a dead letter; past the last level: the last", True),
    Fine("CONSUMER_SEND_MSG_BACK", "origin_msg_id origin_topic", ANY_TEXT,
         "the stored message knows better", True),
    Fine("CONSUMER_SEND_MSG_BACK", "max_reconsume_times", ANY_NUMBER,
         "0: a dead letter; below 0: any number of times", True),
]  # fmt: skip

PULL_ANSWERS = {
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
}


ANY_BOOLEAN = Fine("", "", ("boolean",), "what is not true is false, as in Java", True)


def fine(code, case):
    """Why the case is no mistake; None if it is one."""
    if case.how.startswith(ANY_BOOLEAN.how):
        return ANY_BOOLEAN
    for row in FINE:
        is_meant = code.name in row.codes.split() and case.field in row.fields.split()
        if is_meant and case.how.startswith(row.how) and case.how != "text unpaired":
            return row
    return None


async def furnish(whole):
    """A topic with messages, a group that consumes it, a producer, a half message."""
    whole.make_topic()
    for number in range(3):
        await whole.send(body=b"%d" % number, properties={"KEYS": f"k{number}"})
    consumer = await whole.consume("G", ("T", "*"))
    consumer.answer = Command(code=0, body=b"{}")
    await whole.produce("P", "p1")
    whole.offsets.commit("G", "T", 0, 1)
    half = await whole.send(properties={"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "x"})
    whole.topics.ensure(CHECKED_TOO_OFTEN_TOPIC, 1)
    given_up = whole.put_aside(CHECKED_TOO_OFTEN_TOPIC)
    for table in (whole.topics, whole.groups, whole.offsets):
        await table.file.save()
    place = OffsetId.parse(half.header.msg_id).physical_offset
    host = whole.identity.host
    return good_requests(
        place, half.header.queue_offset, str(OffsetId(host, given_up)), str(OffsetId(host, 0))
    )


async def walk(whole, code, cases):
    """Give a broker each of them; the rows of FINE that were of use."""
    before, used = whole.state(), set()
    for case in cases:
        async with asyncio.timeout(ANSWERED_S_MAX):
            reply = await whole.ask(code, case.fields, case.body)
        after = whole.state()
        what = f"{code.name}, {case.field} {case.how}: {reply.code} {reply.remark}"
        changed = [part for part in after if after[part] != before[part]]
        assert reply.remark != FAILED.remark, what
        why = fine(code, case)
        if reply.code == ResponseCode.SUCCESS or reply.code in PULL_ANSWERS:
            assert why is not None, f"{what}: is it fine? then FINE is to say so"
            used.add(why)
        else:
            assert reply.remark, what
            assert case.told is None or case.told in reply.remark, what
        if changed:
            assert why is not None, f"{what}: changed {changed}"
            assert why.writes, f"{what}: changed {changed}"
            used.add(why)
        before = after
    return used


async def is_well(whole):
    """All that was stored can be read, and more is taken."""
    async with asyncio.timeout(ANSWERED_S_MAX):
        assert (await whole.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).code == 0
        whole.make_topic()
        end = whole.store.bounds("T", 0)[1]
        sent = await whole.send(body=b"last")
        assert sent.header.queue_offset == end
        reply = await whole.ask(RequestCode.PULL_MESSAGE, pull_header(queue_offset=end))
    assert [each.body for each in unpack_records(memoryview(reply.body))] == [b"last"]


def codes_of_table():
    async def read():
        async with open_whole() as whole:
            return sorted(whole.routes)

    return [RequestCode(code) for code in asyncio.run(read())]


TABLE = codes_of_table()


def test_every_code_of_a_broker_has_its_row():
    assert set(TABLE) == OF_A_BROKER


@pytest.mark.parametrize("code", TABLE, ids=lambda code: code.name)
def test_a_bad_request_is_refused_in_clear_words_and_changes_nothing(code, caplog):
    caplog.set_level("CRITICAL")  # refusals by the hundred

    async def story():
        async with open_whole(enable_property_filter=True) as whole:
            fields, body = (await furnish(whole)).get(code, ({}, b""))
            header = whole.routes[code].header
            used = await walk(whole, code, [*spoiled(header, fields, body), *spoiled_bodies(code)])
            await is_well(whole)
        stale = [row for row in FINE if code.name in row.codes.split() and row not in used]
        assert not stale, "rows that nothing needs"

    asyncio.run(story())


@pytest.mark.parametrize("code", TABLE, ids=lambda code: code.name)
def test_a_good_request_is_answered(code):
    """Or else the walk would spoil what was refused anyway."""

    async def story():
        async with open_whole(enable_property_filter=True) as whole:
            fields, body = (await furnish(whole)).get(code, ({}, b""))
            before = whole.state()
            reply = await whole.ask(code, fields, body)
            if not whole.routes[code].writes:
                assert whole.state() == before
            if code in DECLINED:
                assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                assert reply.remark == f"request type {code} {DECLINED[code]}"
            else:
                assert (reply.code, reply.remark) == (0, None)

    asyncio.run(story())


@pytest.mark.parametrize("code", MAKES, ids=lambda code: code.name)
def test_a_refused_request_makes_no_topic_and_no_group(code, caplog):
    caplog.set_level("CRITICAL")

    async def story():
        async with open_whole({"max_message_size": 1024}) as whole:
            fields, body = (await furnish(whole))[code]
            cases = [*spoiled(whole.routes[code].header, fields, body)]
            cases.append(Case("body", "too large", fields, bytes(2000)))
            before, refused = whole.state(), 0
            for number, case in enumerate(cases):
                name = MAKES[code]
                if case.fields.get(name) == fields[name]:
                    case.fields[name] = f"Fresh{number}"
                reply = await whole.ask(code, case.fields, case.body)
                after = whole.state()
                if reply.code == 0 or reply.code in PULL_ANSWERS:
                    before = after
                    continue
                refused += 1
                assert reply.remark not in (None, FAILED.remark)
                changed = [part for part in after if after[part] != before[part]]
                assert not changed, f"{case.field} {case.how}: {reply.remark}: {changed}"
            assert refused > 10

    asyncio.run(story())
