"""Settings from files and command lines, and the errors for bad ones."""

from typing import Annotated

import pytest
from msgspec import Meta

from cometmq.broker.startup import broker_settings
from cometmq.errors import BadSetting
from cometmq.namesrv.startup import namesrv_settings
from cometmq.protocol.java.values import format_properties, parse_properties
from cometmq.settings.settings import (
    Settings,
    as_properties,
    as_texts,
    build,
    parse_file,
    parse_pairs,
)
from cometmq.settings.start_settings import Given
from cometmq.settings.unused_settings import FixedBrokerConfig

UNUSED = frozenset(FixedBrokerConfig.__struct_encode_fields__)


class Sample(Settings):
    flush_interval: Annotated[int, Meta(ge=1)] = 500
    store_path: str = "store"
    is_on: bool = False
    ratio: float = 0.5
    nothing: str | None = None


def test_texts_become_typed_values_under_rocketmq_s_names():
    values = {"flushInterval": "7", "isOn": "true", "ratio": "0.25", "storePath": "a b"}
    built = build(Sample, values)
    assert built == Sample(flush_interval=7, is_on=True, ratio=0.25, store_path="a b")


def test_unset_values_come_from_the_base():
    base = Sample(flush_interval=7)
    assert build(Sample, {"isOn": "true"}, base=base) == Sample(flush_interval=7, is_on=True)


def test_a_listing_can_be_read_back():
    sample = Sample(store_path="x=y:z # no comment", flush_interval=3)
    assert build(Sample, parse_file(as_properties(sample).encode(), "shown")) == sample


def test_values_written_to_a_file_are_read_back_unchanged():
    sample = Sample(store_path="C:\\new\\table \u4e2d\n", flush_interval=3)
    assert as_texts(sample)["storePath"] == sample.store_path
    assert build(Sample, {}, base=sample) == sample
    text = format_properties(as_texts(sample), escaped=True)
    assert parse_properties(text) == as_texts(sample)


def test_unset_settings_are_not_listed():
    sample = Sample()
    assert "nothing" not in as_texts(sample)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"flushIntervall": "1"}, "did you mean flushInterval"),
        ({"zzz": "1"}, "unknown setting zzz"),
        (
            {"zzz": "1", "flushIntervall": "1"},
            r"unknown setting flushIntervall \(did you mean flushInterval\?\); unknown setting zzz",
        ),
        ({"enableDLegerCommitLog": "True"}, "enableDLegerCommitLog=True: not supported"),
        ({"messageStorePlugIn": "a.b.C"}, "messageStorePlugIn=a.b.C: not supported"),
        ({"flushInterval": "0"}, "flushInterval"),
        ({"flushInterval": "many"}, "flushInterval"),
        ({"isOn": "perhaps"}, "isOn"),
    ],
)
def test_bad_settings_are_named(values, expected):
    with pytest.raises(BadSetting, match=expected):
        build(Sample, values, ignored=UNUSED)


def test_unsupported_features_may_be_disabled():
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


def test_a_file_that_is_not_text_is_rejected_by_name():
    with pytest.raises(BadSetting, match=r"broker\.conf"):
        parse_file(b"\xff\xfe", "broker.conf")


CONF = """# a comment
brokerName=a

listenPort = 10911
brokerClusterName=\\
    DefaultCluster
{line}
"""
BAD_LINES = {
    "listenPort=abc": "listenPort=abc: expected an integer from 0 to 65535",
    "listenPort=70000": "listenPort=70000: expected an integer from 0 to 65535",
    "brokerId=-1": "brokerId=-1: expected an integer from 0 to 9223372036854775807",
    "flushDiskType=SYNC": "flushDiskType=SYNC: expected ASYNC_FLUSH or SYNC_FLUSH",
    "traceOn=yes": "traceOn=yes: expected true or false",
    "deleteWhen=25": "deleteWhen=25: expected hours",
    "brokerName=": "brokerName=: expected a text that is not empty",
    "enableLmq=true": "enableLmq=true: not supported; set it to false or remove it",
    "messageStorePlugIn=x": "messageStorePlugIn=x: not supported; remove it",
    "flushDiskTyp=x": "unknown setting flushDiskTyp (did you mean flushDiskType?)",
    "namesrvAddr=a:b": "namesrvAddr: ",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_errors_name_the_file_the_line_and_the_allowed_values(tmp_path, line):
    path = tmp_path / "broker.conf"
    path.write_text(CONF.format(line=line))
    with pytest.raises(BadSetting) as caught:
        broker_settings(Given.read({"storePathRootDir": str(tmp_path)}, path))
    assert str(caught.value).startswith(f"{path}:7: {BAD_LINES[line]}")


def test_errors_of_the_command_line_name_no_file(tmp_path):
    path = tmp_path / "namesrv.conf"
    path.write_text("listenPort=1\n")
    with pytest.raises(BadSetting) as caught:
        namesrv_settings(Given.read({"listenPort": "x"}, path), tmp_path)
    assert str(caught.value) == "listenPort=x: expected an integer from 0 to 65535"


def test_each_unknown_setting_is_named_with_its_line(tmp_path):
    path = tmp_path / "namesrv.conf"
    path.write_bytes(b"\xef\xbb\xbflistenPort=1\r\nlisenPort=2\r\rzzz=3\n")
    with pytest.raises(BadSetting) as caught:
        namesrv_settings(Given.read({}, path), tmp_path)
    expected = (
        f"{path}:2: unknown setting lisenPort (did you mean listenPort?);"
        f" {path}:4: unknown setting zzz"
    )
    assert str(caught.value) == expected


def test_a_damaged_file_of_earlier_changes_is_named_with_the_line(tmp_path):
    path = tmp_path / "broker.properties"
    path.write_text("# changes\ntraceOn=maybe\n")
    with pytest.raises(BadSetting) as caught:
        broker_settings(Given({"storePathRootDir": str(tmp_path)}))
    assert str(caught.value) == f"{path}:2: traceOn=maybe: expected true or false"
