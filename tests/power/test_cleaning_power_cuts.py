"""Real power cuts while log files are deleted, and while log, queue and index files roll.

COMETMQ_POWER_CYCLES sets the number of cuts; without it there are 12, or as many as fit into 45 s.
COMETMQ_POWER_SEED sets the random seed.
"""

import os
import random
import time

import pytest

from power.cleaning import CleaningRun
from power.ext4 import Ext4, missing

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.timeout(1800),
]

IS_CAMPAIGN = "COMETMQ_POWER_CYCLES" in os.environ
CYCLES_MAX = int(os.environ.get("COMETMQ_POWER_CYCLES", "12"))
SHORT_S = 45
SEED = int(os.environ.get("COMETMQ_POWER_SEED", random.randrange(10**6)))


def test_power_cuts_during_cleaning_and_rolls_lose_nothing_acknowledged(tmp_path):
    """Every opening after a cut serves, and so does a second one after a kill without a write."""
    print(f"COMETMQ_POWER_SEED={SEED}")
    started, cycles = time.monotonic(), 0
    with Ext4(tmp_path, 64) as ext4:
        run = CleaningRun(ext4.mount_point, "SYNC", SEED)
        while cycles < CYCLES_MAX and (IS_CAMPAIGN or time.monotonic() - started < SHORT_S):
            run.cut_cycle(cycles, ext4.cut_power, ext4.restore_power)
            cycles += 1
        run.finish()
    print(run.summary(cycles, time.monotonic() - started))
    history = run.history
    assert history.lost == 0
    assert history.acked > cycles * 50 and history.cleaned > cycles * 20
    assert history.openings > cycles, "a second opening follows nearly each cut"
    assert run.done["clean"] >= cycles and run.done["log"] >= cycles, run.done
    assert run.done["queue"] >= cycles / 2 and run.done["index"] >= cycles / 2, run.done
    assert run.cut.total() >= cycles / 4, f"too few cuts during operations: {run.cut}"
