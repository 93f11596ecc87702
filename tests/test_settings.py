"""Settings from files and command lines."""

from typing import Annotated

import pytest
from msgspec import Meta

from cometmq.errors import BadSetting
from cometmq.protocol.java.values import format_properties, parse_properties
from cometmq.settings.settings import (
    Settings,
    as_properties,
    as_texts,
    build,
    parse_file,
    parse_pairs,
)
from cometmq.settings.unused_settings import FixedBrokerConfig

UNUSED = frozenset(FixedBrokerConfig.__struct_encode_fields__)


class Sample(Settings):
    flush_interval: Annotated[int, Meta(ge=1)] = 500
    store_path: str = "store"
    is_on: bool = False
    ratio: float = 0.5
    nothing: str | None = None


def test_texts_become_typed_values_under_the_original_s_names():
    values = {"flushInterval": "7", "isOn": "true", "ratio": "0.25", "storePath": "a b"}
    built = build(Sample, values)
    assert built == Sample(flush_interval=7, is_on=True, ratio=0.25, store_path="a b")


def test_a_base_keeps_what_is_not_said():
    base = Sample(flush_interval=7)
    assert build(Sample, {"isOn": "true"}, base=base) == Sample(flush_interval=7, is_on=True)


def test_what_is_shown_can_be_read_back():
    sample = Sample(store_path="x=y:z # no comment", flush_interval=3)
    assert build(Sample, parse_file(as_properties(sample).encode(), "shown")) == sample


def test_what_is_written_to_a_file_is_read_back_as_it_was():
    sample = Sample(store_path="C:\\new\\table \u4e2d\n", flush_interval=3)
    assert as_texts(sample)["storePath"] == sample.store_path
    assert build(Sample, {}, base=sample) == sample
    text = format_properties(as_texts(sample), escaped=True)
    assert parse_properties(text) == as_texts(sample)


def test_nothing_is_shown_that_is_none():
    sample = Sample()
    assert "nothing" not in as_texts(sample)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"flushIntervall": "1"}, "did you mean flushInterval"),
        ({"zzz": "1"}, "unknown setting zzz"),
        (
            {"zzz": "1", "flushIntervall": "1"},
            r"unknown settings flushIntervall \(did you mean flushInterval\?\), zzz",
        ),
        ({"enableDLegerCommitLog": "True"}, "enableDLegerCommitLog=True: this version has no such"),
        ({"messageStorePlugIn": "a.b.C"}, "messageStorePlugIn=a.b.C: this version has no such"),
        ({"flushInterval": "0"}, "flushInterval"),
        ({"flushInterval": "many"}, "flushInterval"),
        ({"isOn": "perhaps"}, "isOn"),
    ],
)
def test_a_bad_setting_is_named(values, told):
    with pytest.raises(BadSetting, match=told):
        build(Sample, values, ignored=UNUSED)


def test_what_promises_nothing_is_taken():
    harmless = {"enableDLegerCommitLog": "false", "messageStorePlugIn": "", "abortFile": "/x"}
    assert build(Sample, harmless, ignored=UNUSED) == Sample()


@pytest.mark.parametrize("text", ["1", "0", "yes", "", "truth"])
def test_booleans_are_true_or_false_in_any_case(text):
    assert build(Sample, {"isOn": "TRUE"}).is_on
    with pytest.raises(BadSetting, match=f"isOn={text}: expected true or false"):
        build(Sample, {"isOn": text})


@pytest.mark.parametrize("text", ["5.0", "1e3", "1_000", "0x10", "", "2147483648", "9" * 40])
def test_integers_have_the_form_and_range_of_java(text):
    assert build(Sample, {"flushInterval": "+007"}).flush_interval == 7
    with pytest.raises(BadSetting, match=f"flushInterval={text}: expected an integer"):
        build(Sample, {"flushInterval": text})


def test_pairs_of_a_command_line():
    assert parse_pairs(["a=1", "b = x=y "]) == {"a": "1", "b": "x=y"}
    for bad in ("a", "=1", " =1"):
        with pytest.raises(BadSetting, match="key=value"):
            parse_pairs([bad])


def test_a_file_that_is_no_text_is_refused_by_name():
    with pytest.raises(BadSetting, match=r"broker\.conf"):
        parse_file(b"\xff\xfe", "broker.conf")
