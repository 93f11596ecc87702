"""A server as a process: start, stop, failures, pid files, log events."""

import asyncio
import logging
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


def test_a_server_is_stopped_if_the_started_callback_fails():
    server = Server()
    with pytest.raises(ZeroDivisionError):
        asyncio.run(process._serve("broker", lambda: server, lambda _: 1 / 0))
    assert server.is_left


def test_a_server_that_does_not_stop_is_reported(monkeypatch):
    monkeypatch.setattr(process, "STOP_MS_MAX", 10)

    async def test():
        await process._serve(
            "broker", lambda: Server(asyncio.Event()), lambda _: os.kill(os.getpid(), 15)
        )

    with pytest.raises(WorldError, match="did not stop within 10 ms"):
        asyncio.run(test())


def test_start_and_stop_are_logged_with_reason_and_duration(caplog):
    caplog.set_level(logging.INFO)

    async def test():
        await process._serve("broker", Server, lambda _: os.kill(os.getpid(), 15))

    asyncio.run(test())
    started, stopping, stopped = (record.msg for record in caplog.records)
    assert (started.text, started.fields["pid"]) == ("broker started", os.getpid())
    assert (stopping.text, stopping.fields) == ("broker stopping", {"reason": "SIGTERM"})
    assert (stopped.text, stopped.fields["reason"]) == ("broker stopped", "SIGTERM")
    assert 0 <= started.fields["duration_ms"] < 60_000
    assert 0 <= stopped.fields["duration_ms"] < 60_000


def no_home():
    raise RuntimeError("no home")


def test_a_server_needs_no_home_folder(monkeypatch):
    monkeypatch.setattr(Path, "home", no_home)
    with noted("broker"), pytest.raises(WorldError, match="no home"):
        running("broker")


def test_pid_files_that_cannot_be_read_or_deleted_are_skipped(tmp_path, caplog):
    (tmp_path / "broker-1").mkdir()
    (tmp_path / f"broker-{os.getpid()}").write_bytes(b"\xff")
    assert running("broker", tmp_path) == []
    assert f"unreadable pid file path={tmp_path / 'broker-1'}" in caplog.text
    assert [each.name for each in tmp_path.iterdir()] == ["broker-1"]
    with noted("broker", tmp_path):
        (note,) = [each for each in tmp_path.iterdir() if each.name != "broker-1"]
        note.unlink()
        note.mkdir()  # a folder cannot be unlinked
