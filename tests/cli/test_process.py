"""A server as a process: what it leaves behind when something fails, and its note."""

import asyncio
import os
from pathlib import Path

import pytest

from cometmq import process
from cometmq.errors import WorldError
from cometmq.running import noted, running


class Server:
    def __init__(self, end=None):
        self.is_left = False
        self.end = end

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        if self.end is not None:
            await self.end.wait()
        self.is_left = True


def test_a_server_is_left_if_whoever_is_told_of_it_fails():
    server = Server()
    with pytest.raises(ZeroDivisionError):
        asyncio.run(process._serve(lambda: server, lambda _: 1 / 0))
    assert server.is_left


def test_one_that_does_not_stop_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(process, "STOP_MS_MAX", 10)

    async def test():
        await process._serve(lambda: Server(asyncio.Event()), lambda _: os.kill(os.getpid(), 15))

    with pytest.raises(WorldError, match="not stopped within 10 ms"):
        asyncio.run(test())


def no_home():
    raise RuntimeError("no home")


def test_a_server_without_a_home_serves_all_the_same(monkeypatch):
    monkeypatch.setattr(Path, "home", no_home)
    with noted("broker"), pytest.raises(WorldError, match="no home"):
        running("broker")


def test_notes_that_cannot_be_read_or_taken_away_are_passed_over(tmp_path, caplog):
    (tmp_path / "broker-1").mkdir()
    (tmp_path / f"broker-{os.getpid()}").write_bytes(b"\xff")
    assert running("broker", tmp_path) == []
    assert "broker-1 cannot be read" in caplog.text
    assert [each.name for each in tmp_path.iterdir()] == ["broker-1"]
    with noted("broker", tmp_path):
        (note,) = [each for each in tmp_path.iterdir() if each.name != "broker-1"]
        note.unlink()
        note.mkdir()  # which cannot be unlinked
