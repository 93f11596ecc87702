"""Trace records: Java's text both ways, and what is no record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import Malformed
from cometmq.protocol import trace
from cometmq.protocol.trace import decode_traces, encode_trace

# What 4.9.7's TraceDataEncoder wrote, with | and $ for the two separators.
WRITTEN = {
    "Pub|111|REG|GRP|TOP|MSG|TAG|K1 K2|SH|55|22|3|OFF|true$": trace.SentTrace(
        time_ms=111, region_id="REG", group="GRP", topic="TOP", message_id="MSG", tags="TAG",
        keys="K1 K2", store_host="SH", body_size=55, cost_ms=22, kind=trace.MessageKind.DELAYED,
        offset_id="OFF",
    ),
    "SubBefore|111|REG|GRP|REQ|MSG|4|K1 K2$": trace.TakenTrace(
        time_ms=111, region_id="REG", group="GRP", request_id="REQ", message_id="MSG", retries=4,
        keys="K1 K2",
    ),
    "SubAfter|REQ|MSG|22|true|K1 K2|3|111|GRP$": trace.ConsumedTrace(
        request_id="REQ", message_id="MSG", cost_ms=22, keys="K1 K2",
        outcome=trace.Outcome.RETURNED_NULL, time_ms=111, group="GRP",
    ),
    "EndTransaction|111|REG|GRP|TOP|MSG|TAG|K1 K2|SH|3|TX|COMMIT_MESSAGE|true$": trace.EndedTrace(
        time_ms=111, region_id="REG", group="GRP", topic="TOP", message_id="MSG", tags="TAG",
        keys="K1 K2", store_host="SH", kind=trace.MessageKind.DELAYED, transaction_id="TX",
        state="COMMIT_MESSAGE", from_check=True,
    ),
}  # fmt: skip


def wire(text):
    return text.replace("|", "\x01").replace("$", "\x02")


@pytest.mark.parametrize("text", WRITTEN, ids=lambda text: text.split("|")[0])
def test_java_s_text_both_ways(text):
    assert encode_trace(WRITTEN[text]) == wire(text)
    assert decode_traces(wire(text)) == [WRITTEN[text]]
    assert WRITTEN[text].words == {"MSG", "K1", "K2"}


def test_a_body_has_many_records():
    assert decode_traces(wire("".join(WRITTEN))) == list(WRITTEN.values())


def test_fields_that_only_some_clients_write():
    (sent,) = decode_traces(wire("Pub|1|R|G|T|M|||S|5|2|0|O|false|client$"))
    assert (sent.client_host, sent.success) == ("client", False)
    (consumed,) = decode_traces(wire("SubAfter|REQ|M|2|true||0$"))
    assert (consumed.time_ms, consumed.group) == (0, "")
    assert encode_trace(consumed) == wire("SubAfter|REQ|M|2|true||0$")


@pytest.mark.parametrize("text", ["Sup|1$", "Pub|1|R$", "SubBefore|x|R|G|Q|M|0|$", "Pub$"])
def test_bad_records_are_rejected(text):
    with pytest.raises(Malformed):
        decode_traces(wire(text))


plain = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), max_size=9)


@given(st.builds(trace.ConsumedTrace, request_id=plain, message_id=plain, keys=plain, group=plain))
def test_any_texts_come_back(record):
    assert decode_traces(encode_trace(record)) == [record]
