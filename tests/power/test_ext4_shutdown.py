"""Real power cuts: a store on a small ext4 whose power goes while it is written to.

COMETMQ_POWER_CYCLES says how often, 15 times each if it does not; COMETMQ_POWER_SEED how.
"""

import os
import random
import time

import pytest

from power.cycles import Run
from power.ext4 import Ext4, missing

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.timeout(1200)]

CYCLES = int(os.environ.get("COMETMQ_POWER_CYCLES", "15"))
SEED = int(os.environ.get("COMETMQ_POWER_SEED", random.randrange(10**6)))


@pytest.mark.parametrize("mode", ["SYNC", "ASYNC"])
def test_power_cuts(mode, tmp_path):
    """SYNC loses nothing it acknowledged, ASYNC only the end; queues, order, keys and state hold.

    One cycle in six is a kill without a power cut, so that a cut may also come after a restart;
    one in six stops the writer while it opens the store.
    """
    print(f"COMETMQ_POWER_SEED={SEED}")
    chance = random.Random(SEED)
    started = time.monotonic()
    with Ext4(tmp_path, 64) as ext4:
        run = Run(ext4.mount_point, mode, SEED)
        for _ in range(CYCLES):
            early, kill_only = chance.random() < 1 / 6, chance.random() < 1 / 6
            if kill_only:
                run.cycle(early)
            else:
                run.cycle(early, ext4.cut_power, ext4.restore_power)
        run.finish()
    history = run.history
    print(history.summary(CYCLES, time.monotonic() - started))
    assert history.acked > CYCLES * 5 and history.openings > CYCLES / 2, "it did happen"
    if mode == "ASYNC" and CYCLES >= 15:
        assert history.lost, "a power cut that takes nothing is none"
