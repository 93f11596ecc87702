"""Power cuts while a store with small files deletes log files and makes new files.

After each cut the store is opened twice: by a process that sends nothing and is killed, and by the
writer of the next cycle. What the first opening leaves must serve, too.
"""

import time
from collections import Counter
from pathlib import Path

from power.cycles import Run, Writer
from power.writer import SMALL_LOG_FILE_SIZE, SMALL_QUEUE_FILE_SIZE

# When the power goes: the writer deletes log files (a file is gone, and the next step comes); it
# makes a file of the log, of a queue or of the index; it opens the store.
MOMENTS = (
    "began clean", "ended clean", "ended clean", "began log", "began queue", "began index",
    "opening",
)  # fmt: skip
OPERATIONS = ("clean", "log", "queue", "index")
FLUSHES_MS = (70, 200, 400)  # between flushes of the queues
LATE_S = 0.005  # from the moment to the cut, at most
TIMES_MAX = 6  # that the moment is waited for
STORE_CYCLES = 25  # then a new store is begun
SIZES = {"commitlog": SMALL_LOG_FILE_SIZE, "consumequeue": SMALL_QUEUE_FILE_SIZE}


class CleaningRun(Run):
    """Cycle after cycle on one file system; counts what really happened."""

    def __init__(self, root: Path, mode: str, seed: int) -> None:
        super().__init__(root, mode, seed, "--small")
        self.done: Counter[str] = Counter()  # operations, by kind
        self.cut: Counter[str] = Counter()  # operations that were in flight at a cut, by kind
        self._moments: list[str] = []  # of the next cuts

    def cut_cycle(self, number: int, cut_power, restore_power) -> None:
        """Start a writer, cut its power at a chosen moment, and open the store once, idle."""
        chance, history = self._chance, self.history
        self._moments = self._moments or chance.sample(MOMENTS, len(MOMENTS))
        moment = self._moments.pop()
        options = (*self._options, "--flush-ms", str(chance.choice(FLUSHES_MS)))
        writer = Writer(self._folder, history.mode, history.next_id, *options)
        try:
            if moment == "opening":
                writer.wait_for("opening")
                time.sleep(chance.uniform(0, 0.05))
            else:
                writer.wait_for("ready")
                writer.wait_for(moment, chance.randint(1, TIMES_MAX))
                time.sleep(chance.uniform(0, LATE_S))
            cut_ms = time.monotonic_ns() // 1_000_000
            cut_power()
        finally:
            lines = writer.kill()
        self._remember(lines, cut_ms, is_cut=True)
        self._count(lines, cut_ms)
        restore_power()
        self.check_files()
        self.finish()
        if number % STORE_CYCLES == STORE_CYCLES - 1:
            self._begin_anew()

    def _count(self, lines: list[list[str]], cut_ms: int) -> None:
        """Operations of a writer that was open, and those that it had begun and not ended."""
        in_flight: Counter[str] = Counter()
        names = [line[0] for line in lines]
        ready = names.index("ready") if "ready" in names else len(lines)
        for name, kind, *rest in (line for line in lines[ready:] if line[0] in ("began", "ended")):
            if int(rest[0]) <= cut_ms:
                in_flight[kind] += 1 if name == "began" else -1
                self.done[kind] += name == "ended"
        self.cut.update(kind for kind, count in in_flight.items() if count > 0)

    def check_files(self) -> None:
        """The files of the log, and of each queue, follow each other without a gap."""
        for kind, size in SIZES.items():
            folder = self._folder / "store" / kind
            for place in [folder, *folder.rglob("*")]:
                bases = sorted(int(path.name) for path in place.glob("0*"))
                follow = list(range(bases[0], bases[-1] + 1, size)) if bases else []
                assert bases == follow, f"{place} has a gap: {bases}"

    def check_enough(self, cycles: int) -> None:
        """Enough was acknowledged, cleaned, made and cut for the checks to mean something."""
        history = self.history
        assert history.acked > cycles * 50 and history.cleaned > cycles * 20
        assert history.openings > cycles, "a second opening follows nearly each cut"
        assert self.done["clean"] >= cycles and self.done["log"] >= cycles, self.done
        assert self.done["queue"] >= cycles / 4 and self.done["index"] >= cycles / 4, self.done
        assert self.cut.total() >= cycles / 4, f"too few cuts during operations: {self.cut}"

    def summary(self, cycles: int, seconds: float) -> str:
        done = ", ".join(f"{kind} {self.done[kind]}" for kind in OPERATIONS)
        cut = ", ".join(f"{kind} {self.cut[kind]}" for kind in OPERATIONS)
        return (
            f"{self.history.summary(cycles, seconds)}; {self.history.cleaned} cleaned;"
            f" operations: {done}; in flight at a cut: {cut}"
        )
