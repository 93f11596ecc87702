"""`python -m cometmq.spark JOB ...`: the same as `cometmq pipeline JOB ...`."""

import sys

from cometmq.errors import UserError, WorldError
from cometmq.spark.commands import pipeline

try:
    pipeline(prog_name="cometmq pipeline")
except (UserError, WorldError) as error:
    sys.exit(f"cometmq: {error}")
