"""Power cuts and kills before and between all disk steps lose no promised message.

COMETMQ_CRASH_STATES sets the total number of crash states.

docs/disk.md, section 6, states the guarantees.
"""

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from crash.histories import CLEANING_KINDS, KINDS, run_history

STATES = int(os.environ.get("COMETMQ_CRASH_STATES", "3500"))
CLEANING_SHARE = 0.1  # of the states: those around cleaning are fewer, and larger
CLEANING_IMAGES = 0.05  # a step of the disk

pytestmark = pytest.mark.timeout(7200)


def run_histories(kind: str, states: float, each_step: float = 1.0) -> Counter[str]:
    """Run histories until they have this many crash states."""
    workers = os.cpu_count() or 1
    done: Counter[str] = Counter()
    with ProcessPoolExecutor(workers) as pool:
        while done["states"] < states:
            seeds = range(done["histories"], done["histories"] + workers)
            done += sum(pool.map(partial(run_history, kind, each_step), seeds), Counter())
    print(f"{kind}: {dict(done)}")
    return done


@pytest.mark.parametrize("kind", KINDS)
def test_power_cuts_lose_nothing_promised(kind):
    run_histories(kind, STATES / len(KINDS))


@pytest.mark.parametrize("kind", CLEANING_KINDS)
def test_power_cuts_during_cleaning_lose_nothing_retained(kind):
    done = run_histories(kind, CLEANING_SHARE * STATES / len(CLEANING_KINDS), CLEANING_IMAGES)
    for what in ("cleaned", "log_rolls", "queue_rolls", "index_rolls"):
        assert done[what] >= done["histories"] / 2, done
