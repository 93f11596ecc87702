"""What this process did not write is verified before it is served, once.

What is to hold is in docs/disk.md, section 1.
"""

import asyncio

from cometmq.store.log import vetting
from cometmq.store.queue import unit_check
from store.rig import NOON_MS, message, open_store, read_all


async def filled(folder):
    async with open_store(folder) as store:
        return [store.put(message(b"%2d" % i * 50), NOON_MS + i) for i in range(60)]


def damage(folder, stored):
    path = folder / "commitlog" / f"{stored.physical_offset // 4096 * 4096:020}"
    content = bytearray(path.read_bytes())
    content[stored.physical_offset % 4096 + 95] ^= 1  # in the body
    path.write_bytes(content)


def test_a_damaged_body_is_passed_over_told_once_and_costs_no_other(tmp_path, caplog):
    async def story():
        places = await filled(tmp_path)
        damage(tmp_path, places[7])
        damage(tmp_path, places[8])
        async with open_store(tmp_path) as store:
            for _ in range(3):
                assert [one.queue_offset for one in read_all(store)] == [*range(7), *range(9, 60)]
            assert store.record(places[7].physical_offset) is None
            assert store.damaged == 2
        told = [line for line in caplog.messages if "not served" in line]
        assert len(told) == 2 and str(places[7].physical_offset) in told[0]

    asyncio.run(story())


def test_each_record_is_verified_once_and_what_was_just_written_never(tmp_path, monkeypatch):
    verified = []
    record_at = unit_check.record_at

    def counted(file, at):
        verified.append(file.base + at)
        return record_at(file, at)

    monkeypatch.setattr(unit_check, "record_at", counted)

    async def story():
        places = await filled(tmp_path)
        assert verified == []
        async with open_store(tmp_path) as store:
            verified.clear()  # the first and the last unit of each queue were
            new = [store.put(message(b"new"), NOON_MS) for _ in range(5)]
            for _ in range(3):
                assert len(read_all(store)) == 65
            assert verified == [place.physical_offset for place in places]
            assert new[0].physical_offset not in verified

    asyncio.run(story())


def test_what_is_remembered_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(vetting, "_CHUNK", 16)
    monkeypatch.setattr(vetting, "_CHUNKS_MAX", 1)

    async def story():
        async with open_store(tmp_path) as store:
            for i in range(60):
                store.put(message(b"%d" % i * 100), NOON_MS)
        async with open_store(tmp_path) as store:
            for _ in range(2):
                assert len(read_all(store)) == 60
                assert len(store._vetting._good) == 1

    asyncio.run(story())
