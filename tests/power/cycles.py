"""Writers that are killed, and a history of what they said, to hold against what is found."""

import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
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

    def __init__(self, folder: Path, mode: str, first: int, *options: str) -> None:
        command = [sys.executable, str(SCRIPT), str(folder), mode, str(first), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._lines: list[list[str]] = []
        self._news = threading.Condition()
        self._counts: Counter[str] = Counter()  # of first words, and of first two words
        self._is_over = False
        self._errors = b""
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._drain)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            words = line.decode().split()
            with self._news:
                self._lines.append(words)
                self._counts[words[0]] += 1
                self._counts[" ".join(words[:2])] += 1
                self._is_over |= words[0] == "failed"
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()

    def _drain(self) -> None:
        self._errors = self._process.stderr.read()

    def wait_for(self, words: str, times: int = 1) -> None:
        """Until it said a line that begins so, for the n-th time, or failed."""
        with self._news:
            assert self._news.wait_for(lambda: self._is_over or self._counts[words] >= times, 60), (
                f"no {words!r}"
            )

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
    cleaned_to: int = 0  # messages before this place of the log may be gone
    ends: list[int] = field(default_factory=lambda: [0] * QUEUES)  # of what was promised
    saved: int = 0
    next_id: int = 1
    acked: int = 0
    unsure: int = 0
    lost: int = 0
    cleaned: int = 0  # acknowledged messages that went with their log files
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
        self._check_queues(lines, found, offsets)
        assert all(number < self.next_id for number in found), "none that was never sent"
        assert not found.keys() & self.gone, "what was lost never comes back"
        missing = self.promised.keys() - found.keys()
        lost = {number for number in missing if self.promised[number].physical >= self.cleaned_to}
        self._check_lost(lost, found, stopped_ms)
        for number in self.promised.keys() - missing:
            assert found[number] == self.promised[number], f"{number} is not where it was"
        version = next(int(line[1]) for line in lines if line[0] == "state")
        assert version >= self.saved, "the state file is older than what was saved"
        unfound = next(list(map(int, line[1:])) for line in lines if line[0] == "unfound")
        unfound = [at for at in unfound[1::2] if at >= self.cleaned_to]
        assert not unfound, f"by key: {len(unfound)} of {len(found)}: {unfound[:5]}"
        self.lost += len(lost)
        self.cleaned += len(missing) - len(lost)
        self.rounds_with_loss += bool(lost)
        self.gone |= lost
        self.promised = found
        self.acked_ms = {}
        self.saved = version

    def _check_queues(
        self, lines: list[list[str]], found: dict[int, Place], offsets: list[list[int]]
    ) -> None:
        """Every queue can be read from its min to its max offset, and offsets are never reused."""
        log_start = next(int(line[1]) for line in lines if line[0] == "log")
        assert log_start <= self.cleaned_to, f"the log starts at {log_start}: a file is missing"
        bounds = [list(map(int, line[1:])) for line in lines if line[0] == "bounds"]
        assert [queue for queue, _, _ in bounds] == list(range(QUEUES))
        for queue, first, end in bounds:
            assert offsets[queue] == list(range(first, end)), f"a gap in queue {queue}"
            assert first == 0 or self.cleaned_to > 0, f"queue {queue} starts at {first}"
            numbers = [number for number, place in found.items() if place.queue == queue]
            assert numbers == sorted(numbers), "in the order in which they were sent"
            if self.mode == "SYNC":
                expected = self.ends[queue]
                assert end >= expected, f"queue {queue} ends at {end}, not at {expected} or later"
            self.ends[queue] = end

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
            if line[0] == "cleaned":
                self.cleaned_to = max(self.cleaned_to, int(line[1]))
            if line[0] not in ("ack", "saved"):
                continue
            if line[0] == "ack":
                self.next_id = max(self.next_id, int(line[1]) + 1)
            if cut_ms is not None and int(line[-1]) >= cut_ms:
                self.unsure += 1
            elif line[0] == "ack":
                number, *place = map(int, line[1:5])
                self.promised[number] = Place(*place)
                self.ends[place[0]] = max(self.ends[place[0]], place[1] + 1)
                self.acked_ms[number] = int(line[5])
                self.acked += 1
            else:
                self.saved = int(line[1])
        self.next_id += 1000  # those that were under way, or put and not told

    def begin_anew(self) -> None:
        """For another store."""
        self.promised.clear()
        self.acked_ms.clear()
        self.cleaned_to, self.ends, self.saved = 0, [0] * QUEUES, 0

    def summary(self, cycles: int, seconds: float) -> str:
        return (
            f"{self.mode}: {cycles} cycles in {seconds:.0f} s, {self.openings} openings checked, "
            f"{self.acked} acknowledged ({self.unsure} more while the power went), "
            f"{self.lost} lost in {self.rounds_with_loss} cycles"
        )


class Run:
    """Cycle after cycle on one file system."""

    def __init__(self, root: Path, mode: str, seed: int, *options: str) -> None:
        """`options` of every writer."""
        self._root = root
        self._options = options
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
        writer = Writer(self._folder, history.mode, history.next_id, *self._options)
        try:
            writer.wait_for("opening" if stop_early else "ready")
            time.sleep(self._chance.uniform(0, 0.03 if stop_early else 0.3))
            cut_ms = time.monotonic_ns() // 1_000_000
            if cut_power is not None:
                cut_power()
        finally:
            lines = writer.kill()
        self._remember(lines, cut_ms, cut_power is not None)
        if restore_power is not None:
            restore_power()
        if len(history.promised) > MESSAGES_MAX:
            self._begin_anew()

    def _remember(self, lines: list[list[str]], stopped_ms: int, is_cut: bool) -> None:
        """What a writer said that was stopped at a time, by a power cut or a kill."""
        for _, failed_ms, *reason in (line for line in lines if line[0] == "failed"):
            assert is_cut and int(failed_ms) >= stopped_ms, " ".join(reason)
        self.history.check(lines, self._cut_before)
        self.history.learn(lines, stopped_ms if is_cut else None)
        if "ready" in [line[0] for line in lines]:
            self._cut, self._stopped_ms = is_cut, stopped_ms
        elif is_cut:
            self._cut = True

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
        self.history.begin_anew()
        self._cut = False

    def finish(self) -> None:
        """Open once more, to check what the last cycle left."""
        writer = Writer(
            self._folder, self.history.mode, self.history.next_id, *self._options, "--idle"
        )
        try:
            writer.wait_for("ready")
        finally:
            lines = writer.kill()
        assert "ready" in [line[0] for line in lines], lines[-1]
        self._remember(lines, time.monotonic_ns() // 1_000_000, is_cut=False)
