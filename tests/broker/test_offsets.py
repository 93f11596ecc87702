"""Offsets of groups, beside a model, and as their file holds them."""

import asyncio
import json
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cometmq.broker.tables.offsets import ConsumerOffsets
from cometmq.protocol.limits import DIALECT_SIZE_MAX
from crash.shadow_disk import ShadowDisk

PATH = Path("/store/config/consumerOffset.json")
NAMES = st.sampled_from(["a", "b", "a-b", "%RETRY%a"])


class OffsetsBesideAModel(RuleBasedStateMachine):
    """The model: group, topic and queue to offset."""

    @initialize()
    def begin(self):
        self.table, self.model = ConsumerOffsets(ShadowDisk(), PATH), {}

    @rule(group=NAMES, topic=NAMES, queue_id=st.integers(0, 3), offset=st.integers(0, 2**63 - 1))
    def commit(self, group, topic, queue_id, offset):
        self.table.commit(group, topic, queue_id, offset)
        self.model[group, topic, queue_id] = offset
        assert not self.table.file.is_saved

    @rule(source=NAMES, heir=NAMES, topic=NAMES)
    def clone(self, source, heir, topic):
        self.table.clone(source, heir, topic)
        found = {key: n for key, n in self.model.items() if key[:2] == (source, topic)}
        if found:
            self._forget(lambda group, name: (group, name) == (heir, topic))
            self.model |= {(heir, topic, queue): n for (_, _, queue), n in found.items()}

    @rule(name=NAMES)
    def forget_group(self, name):
        self.table.forget_group(name)
        self._forget(lambda group, topic: group == name)

    @rule(name=NAMES)
    def forget_topic(self, name):
        self.table.forget_topic(name)
        self._forget(lambda group, topic: topic == name)

    def _forget(self, is_gone):
        self.model = {key: n for key, n in self.model.items() if not is_gone(*key[:2])}

    @invariant()
    def both_agree(self):
        pairs = {key[:2] for key in self.model}
        for group, topic in pairs:
            queues = {q: n for (g, t, q), n in self.model.items() if (g, t) == (group, topic)}
            assert self.table.of(group, topic) == queues
            assert topic in self.table.topics_of(group)
            assert group in self.table.groups_of(topic)
        count = sum(len(queues) for queues in self.table.body.offset_table.values())
        assert count == len(self.model)


TestOffsetsBesideAModel = OffsetsBesideAModel.TestCase


def test_the_file_is_the_original_s():
    async def story():
        disk = ShadowDisk()
        table = ConsumerOffsets(disk, PATH)
        table.commit("G", "T", 10, 8)
        table.commit("G", "T", 3, 7)
        await table.file.save()
        text = disk.read(PATH).decode()
        assert text == '{\n\t"offsetTable":{\n\t\t"T@G":{3:7,10:8\n\t\t}\n\t}\n}'
        again = ConsumerOffsets(disk, PATH)
        again.load()
        assert again.of("G", "T") == {3: 7, 10: 8}

    asyncio.run(story())


def test_a_file_with_quoted_numbers_is_read_too():
    disk = ShadowDisk()
    disk.overwrite(PATH, json.dumps({"offsetTable": {"T@G": {"3": 7}}}).encode())
    table = ConsumerOffsets(disk, PATH)
    table.load()
    assert table.get("G", "T", 3) == 7
    assert table.get("G", "T", 4) is None
    assert table.get("H", "T", 3) is None


def test_a_clone_goes_its_own_way():
    table = ConsumerOffsets(ShadowDisk(), PATH)
    table.commit("G", "T", 0, 1)
    table.clone("G", "H", "T")
    table.commit("H", "T", 0, 9)
    assert (table.get("G", "T", 0), table.get("H", "T", 0)) == (1, 9)


def test_returned_offsets_are_copies():
    table = ConsumerOffsets(ShadowDisk(), PATH)
    table.commit("G", "T", 0, 1)
    table.of("G", "T")[0] = 9
    assert table.get("G", "T", 0) == 1


def test_a_file_larger_than_what_a_peer_may_send_is_read():
    disk = ShadowDisk()
    table = ConsumerOffsets(disk, PATH)
    for number in range(24_000):
        for queue_id in range(16):
            table.commit("G", f"T{number}", queue_id, 10_000_000)
    asyncio.run(table.file.save())
    assert disk.size(PATH) > DIALECT_SIZE_MAX
    again = ConsumerOffsets(disk, PATH)
    again.load()
    assert again.of("G", "T23999") == dict.fromkeys(range(16), 10_000_000)
