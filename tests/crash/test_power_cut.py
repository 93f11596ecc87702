"""Power cuts and kills before every step of the disk and between: nothing promised is lost.

COMETMQ_CRASH_STATES says how many crash states are looked at, in all.

What is to hold is in docs/disk.md, section 6.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from crash.histories import KINDS, run_history

STATES = int(os.environ.get("COMETMQ_CRASH_STATES", "8000"))

pytestmark = pytest.mark.timeout(7200)


@pytest.mark.parametrize("kind", KINDS)
def test_power_cuts_lose_nothing_promised(kind):
    workers = os.cpu_count() or 1
    states = histories = 0
    with ProcessPoolExecutor(workers) as pool:
        while states < STATES / len(KINDS):
            seeds = range(histories, histories + workers)
            states += sum(pool.map(partial(run_history, kind), seeds))
            histories += workers
    print(f"{kind}: {states} states of {histories} histories")
