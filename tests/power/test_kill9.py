"""kill -9 at any moment: the page cache survives, so nothing that was acknowledged is lost."""

import os
import random
import time

import pytest

from power.cycles import Run

CYCLES = int(os.environ.get("COMETMQ_KILL_CYCLES", "20"))
SEED = int(os.environ.get("COMETMQ_POWER_SEED", random.randrange(10**6)))

pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize("mode", ["SYNC", "ASYNC"])
def test_kills(mode, tmp_path):
    print(f"COMETMQ_POWER_SEED={SEED}")
    chance = random.Random(SEED)
    started = time.monotonic()
    run = Run(tmp_path, mode, SEED)
    for _ in range(CYCLES):
        run.cycle(stop_early=chance.random() < 1 / 6)
        run.check_whole()
    run.finish()
    print(run.history.summary(CYCLES, time.monotonic() - started))
    assert run.history.acked > CYCLES * 5 and run.history.lost == 0
