"""Key-value configuration and its file."""

import asyncio
import json

import pytest

from cometmq.disk import RealDisk
from cometmq.errors import BadState, TooLarge
from cometmq.namesrv.kv_table import KvTable
from cometmq.protocol.limits import KV_SIZE_MAX


def run(*steps):
    """One after the other."""

    async def all_of_them():
        for step in steps:
            await step

    asyncio.run(all_of_them())


class FullDisk(RealDisk):
    """Reads, but has no room."""

    def replace(self, path, content):
        raise OSError(28, "No space left on device")


def test_values_are_there_after_a_restart(tmp_path):
    path = tmp_path / "deep" / "kvConfig.json"
    table = KvTable(RealDisk(), path)
    run(
        table.put("N", "k", "v"),
        table.put("N", "unicode", "名字"),
        table.put("M", "k", "w"),
        table.delete("N", "k"),
    )
    again = KvTable(RealDisk(), path)
    assert again.namespace("N") == {"unicode": "名字"}
    assert again.get("M", "k") == "w"
    assert again.get("M", "x") is None
    assert again.namespace("X") is None


def test_the_file_is_the_original_s(tmp_path):
    path = tmp_path / "kvConfig.json"
    run(KvTable(RealDisk(), path).put("ORDER_TOPIC_CONFIG", "TopicA", "broker-a:4"))
    text = '{"configTable":{"ORDER_TOPIC_CONFIG":{"TopicA":"broker-a:4"}}}'
    assert path.read_text() == text, "as recorded in golden/bodies.json, KVConfigSerializeWrapper"
    assert json.loads(text)


def test_what_cannot_be_written_is_not_there(tmp_path):
    path = tmp_path / "kvConfig.json"
    run(KvTable(RealDisk(), path).put("N", "k", "v"))
    table = KvTable(FullDisk(), path)
    with pytest.raises(OSError, match="No space"):
        run(table.put("N", "k", "other"))
    with pytest.raises(OSError, match="No space"):
        run(table.delete("N", "k"))
    assert table.get("N", "k") == "v"


def test_too_many_values_are_refused(tmp_path):
    table = KvTable(RealDisk(), tmp_path / "kvConfig.json")
    run(table.put("N", "large", "x" * (KV_SIZE_MAX - 100)))
    with pytest.raises(TooLarge):
        run(table.put("N", "more", "x" * 100))
    assert table.get("N", "more") is None


@pytest.mark.parametrize("content", ["", "{", '{"configTable":[]}', "\x00"])
def test_a_broken_file_stops_the_start_and_is_left_alone(tmp_path, content):
    path = tmp_path / "kvConfig.json"
    path.write_text(content)
    with pytest.raises(BadState, match=r"kvConfig\.json"):
        KvTable(RealDisk(), path)
    assert path.read_text() == content
