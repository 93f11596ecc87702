"""Errors named no path: "no store can be kept in ROOT: Is a directory"."""

import asyncio
import errno
import os
import shutil

import pytest

from cli.test_refusals import BROKER_THERE, NAMESRV_THERE, STANDALONE, place, used
from cometmq.disk import RealDisk
from store.rig import message, open_store

__all__ = ["place", "used"]  # fixtures

FOLDERS = ["commitlog", "consumequeue", "index", "config"]
FILES = [
    "lock", "abort", "checkpoint", "config/topics.json", "config/subscriptionGroup.json",
    "config/consumerOffset.json", "config/delayOffset.json", "commitlog/00000000000000000000",
]  # fmt: skip


def make_folder(path):
    if path.is_file():
        path.unlink()
    path.mkdir(parents=True)


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_place_of_a_file_is_named(place, name):
    path = place.folder / "store" / name
    make_folder(path)
    place.refused(BROKER_THERE, f"{path} storePathRootDir")


@pytest.mark.parametrize("name", FOLDERS)
def test_a_file_in_place_of_a_folder_is_named(place, name):
    path = place.folder / "store" / name
    shutil.rmtree(path)
    path.write_text("no folder")
    place.refused(BROKER_THERE, f"{path} storePathRootDir")


def test_standalone_names_the_file_and_its_option(place):
    path = place.folder / "store" / "checkpoint"
    make_folder(path)
    place.refused(STANDALONE, f"{path} --store")


def test_a_log_apart_is_named_with_its_setting(place):
    path = place.root / "apart" / "00000000000000000000"
    make_folder(path)
    place.refused(f"{BROKER_THERE} storePathCommitLog={path.parent}", f"{path} storePathCommitLog")


def test_a_name_server_names_its_file(place):
    path = place.folder / "namesrv" / "kvConfig.json"
    make_folder(path)
    place.refused(NAMESRV_THERE, f"{path} kvConfigPath")


@pytest.mark.parametrize("option", ["tls.server.certPath={file}x tls.server.keyPath={file}"])
@pytest.mark.parametrize("line", [BROKER_THERE, NAMESRV_THERE])
def test_a_missing_certificate_is_named(place, line, option):
    place.refused(f"{line} {option} tls.server.mode=enforcing", "{file}x")


# In operation


def failing(monkeypatch, name, code):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, name, fail)


@pytest.mark.parametrize(
    ("call", "work"),
    [
        ("fsync", lambda disk, path: disk.replace(path, b"x")),
        ("pwrite", lambda disk, path: disk.replace(path, b"x")),
        ("posix_fallocate", lambda disk, path: disk.create(path, 4096)),
        ("fdatasync", lambda disk, path: disk.write_at(path, 0, b"x", 10)),
        ("pwrite", lambda disk, path: disk.write_at(path, 0, b"x", 10)),
        ("fdatasync", lambda disk, path: disk.write_all([(path, 0, b"x", 10)])),
        ("pwrite", lambda disk, path: disk.write_all([(path, 0, b"x", 10)])),
    ],
)
def test_errors_of_the_disk_name_the_file(tmp_path, monkeypatch, call, work):
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    failing(monkeypatch, call, errno.EIO)
    with pytest.raises(OSError, match="Input/output error") as told:
        work(RealDisk(), path)
    assert str(told.value.filename).startswith(str(path.parent))


def test_a_log_that_cannot_be_synced_is_named_in_the_log(tmp_path, monkeypatch, caplog):
    async def story():
        store = await open_store(tmp_path).__aenter__()
        stored = store.put(message(b"1"), 1)
        failing(monkeypatch, "fdatasync", errno.EIO)
        with pytest.raises(Exception, match="could not be written"):
            await store.durable(stored)
        monkeypatch.undo()
        await store.abandon()

    asyncio.run(story())
    (line,) = [each.getMessage() for each in caplog.records if "durable" in each.getMessage()]
    assert str(tmp_path / "commitlog" / f"{0:020}") in line
