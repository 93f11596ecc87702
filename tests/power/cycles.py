"""Writers that are killed, and a history of what they said, to hold against what is found."""

import random
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from power.writer import LOG_FILE_SIZE, QUEUE_FILE_SIZE

SCRIPT = Path(__file__).with_name("writer.py")
QUEUES = 4
LOST_MS_MAX = 2_000  # under ASYNC: 50 ms between flushes, and a slow machine
MESSAGES_MAX = 6_000  # then a new store is begun: the disk is small
SIZES = {"commitlog": LOG_FILE_SIZE, "consumequeue": QUEUE_FILE_SIZE}


class Writer:
    """A process of writer.py, whose lines are read as they come."""

    def __init__(self, folder: Path, mode: str, first: int) -> None:
        command = [sys.executable, str(SCRIPT), str(folder), mode, str(first)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._lines: list[list[str]] = []
        self._seen = {name: threading.Event() for name in ("opening", "ready")}
        self._errors = b""
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._drain)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            words = line.decode().split()
            self._lines.append(words)
            if words[0] in self._seen:
                self._seen[words[0]].set()
            elif words[0] == "failed":
                self._let_go()
        self._let_go()

    def _let_go(self) -> None:
        for event in self._seen.values():
            event.set()

    def _drain(self) -> None:
        self._errors = self._process.stderr.read()

    def wait_for(self, name: str) -> None:
        assert self._seen[name].wait(60), f"no {name!r}"

    def kill(self) -> list[list[str]]:
        """At once; all that it said."""
        self._process.kill()
        self._process.wait(30)
        for thread in self._threads:
            thread.join(30)
        self._process.stdout.close()
        self._process.stderr.close()
        assert b"Traceback" not in self._errors, self._errors.decode()
        return self._lines


@dataclass(frozen=True)
class Place:
    queue: int
    offset: int
    physical: int


@dataclass
class History:
    """What was promised, and what was found; `check` raises when they differ."""

    mode: str
    promised: dict[int, Place] = field(default_factory=dict)  # acknowledged, or once found
    acked_ms: dict[int, int] = field(default_factory=dict)  # since the last opening
    gone: set[int] = field(default_factory=set)
    saved: int = 0
    next_id: int = 1
    acked: int = 0
    unsure: int = 0
    lost: int = 0
    rounds_with_loss: int = 0
    openings: int = 0

    def check(self, lines: list[list[str]], stopped_ms: int | None) -> None:
        """What an opening found; `stopped_ms`: when the writer before it lost its power, if so."""
        kinds = [line[0] for line in lines]
        if "ready" not in kinds:
            return  # it was stopped while it opened: the next one tells
        self.openings += 1
        assert "damaged" not in kinds, "a place without a message"
        found: dict[int, Place] = {}
        offsets: list[list[int]] = [[] for _ in range(QUEUES)]
        for _, _, queue, offset, number, physical in (line for line in lines if line[0] == "have"):
            assert int(number) not in found, f"{number} is there twice"
            found[int(number)] = Place(int(queue), int(offset), int(physical))
            offsets[int(queue)].append(int(offset))
        for queue in range(QUEUES):
            assert offsets[queue] == list(range(len(offsets[queue]))), "offsets without a gap"
            numbers = [number for number, place in found.items() if place.queue == queue]
            assert numbers == sorted(numbers), "in the order in which they were sent"
        assert all(number < self.next_id for number in found), "none that was never sent"
        assert not found.keys() & self.gone, "what was lost never comes back"
        lost = self.promised.keys() - found.keys()
        self._check_lost(lost, found, stopped_ms)
        for number in self.promised.keys() - lost:
            assert found[number] == self.promised[number], f"{number} is not where it was"
        version = next(int(line[1]) for line in lines if line[0] == "state")
        assert version >= self.saved, "the state file is older than what was saved"
        unfound = next(line for line in lines if line[0] == "unfound")
        assert unfound == ["unfound", "0"], f"by key: {unfound} of {len(found)}"
        self.lost += len(lost)
        self.rounds_with_loss += bool(lost)
        self.gone |= lost
        self.promised = found
        self.acked_ms = {}
        self.saved = version

    def _check_lost(self, lost: set[int], found: dict[int, Place], stopped_ms: int | None) -> None:
        if self.mode == "SYNC" or stopped_ms is None:
            told = [
                (number, self.promised[number], self.acked_ms.get(number, 0) - (stopped_ms or 0))
                for number in sorted(lost)
            ]
            assert not lost, f"{len(lost)} acknowledged are lost; ms after the cut: {told[:9]}"
        elif lost:
            first = min(self.promised[number].physical for number in lost)
            last = max((place.physical for place in found.values()), default=-1)
            assert last < first, "more than the end of the log is lost"
            assert lost <= self.acked_ms.keys(), "what was found after a restart is lost"
            age_ms = stopped_ms - min(self.acked_ms[number] for number in lost)
            assert age_ms <= LOST_MS_MAX, f"lost what was {age_ms} ms old"

    def learn(self, lines: list[list[str]], cut_ms: int | None = None) -> None:
        """What the writer promised after it had opened, before `cut_ms` if its power was cut.

        Not after: while the ioctl runs, ext4 (6.18) still answers 0 to an fdatasync of pages that
        were never written before, and drops them. After a real cut nobody hears such an answer.
        """
        for line in lines:
            if line[0] not in ("ack", "saved"):
                continue
            if line[0] == "ack":
                self.next_id = max(self.next_id, int(line[1]) + 1)
            if cut_ms is not None and int(line[-1]) >= cut_ms:
                self.unsure += 1
            elif line[0] == "ack":
                number, *place = map(int, line[1:5])
                self.promised[number] = Place(*place)
                self.acked_ms[number] = int(line[5])
                self.acked += 1
            else:
                self.saved = int(line[1])
        self.next_id += 1000  # those that were under way, or put and not told

    def summary(self, cycles: int, seconds: float) -> str:
        return (
            f"{self.mode}: {cycles} cycles in {seconds:.0f} s, {self.openings} openings checked, "
            f"{self.acked} acknowledged ({self.unsure} more while the power went), "
            f"{self.lost} lost in {self.rounds_with_loss} cycles"
        )


class Run:
    """Cycle after cycle on one file system."""

    def __init__(self, root: Path, mode: str, seed: int) -> None:
        self._root = root
        self._chance = random.Random(seed)
        self._number = 0
        self._cut = False
        self._stopped_ms = 0
        self.history = History(mode)

    @property
    def _folder(self) -> Path:
        return self._root / f"store-{self._number}"

    def cycle(self, stop_early: bool, cut_power=None, restore_power=None) -> None:
        """Start a writer, stop it by kill -9 or a power cut, and remember what it said."""
        history = self.history
        writer = Writer(self._folder, history.mode, history.next_id)
        try:
            writer.wait_for("opening" if stop_early else "ready")
            time.sleep(self._chance.uniform(0, 0.03 if stop_early else 0.3))
            cut_ms = time.monotonic_ns() // 1_000_000
            if cut_power is not None:
                cut_power()
        finally:
            lines = writer.kill()
        for _, failed_ms, *reason in (line for line in lines if line[0] == "failed"):
            assert cut_power is not None and int(failed_ms) >= cut_ms, " ".join(reason)
        history.check(lines, self._cut_before)
        history.learn(lines, cut_ms if cut_power is not None else None)
        if "ready" in [line[0] for line in lines]:
            self._cut, self._stopped_ms = cut_power is not None, cut_ms
        elif cut_power is not None:
            self._cut = True
        if restore_power is not None:
            restore_power()
        if len(history.promised) > MESSAGES_MAX:
            self._begin_anew()

    @property
    def _cut_before(self) -> int | None:
        """When the last writer that was open stopped, if the power was cut since."""
        return self._stopped_ms if self._cut else None

    def check_whole(self) -> None:
        """There is no file for which the original would refuse the store: half made, or a stray."""
        for kind, size in SIZES.items():
            for path in (self._folder / "store" / kind).rglob("*"):
                is_whole = path.is_dir() or (path.name.isdigit() and path.stat().st_size == size)
                assert is_whole, f"{path} of {path.stat().st_size} bytes"

    def _begin_anew(self) -> None:
        self.finish()
        shutil.rmtree(self._folder)
        self._number += 1
        self.history.promised.clear()
        self.history.acked_ms.clear()
        self.history.saved = 0
        self._cut = False

    def finish(self) -> None:
        """Open once more, to check what the last cycle left."""
        writer = Writer(self._folder, self.history.mode, self.history.next_id)
        try:
            writer.wait_for("ready")
        finally:
            lines = writer.kill()
        assert "ready" in [line[0] for line in lines], lines[-1]
        self.history.check(lines, self._cut_before)
        self.history.learn(lines)
        self._cut = False
