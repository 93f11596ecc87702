"""Starts queries of a real Spark and retries slow worker starts.

Spark gives a Python worker ten seconds to start, which a busy machine may exceed.
"""

import time

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

NO_WORKER = "Python worker failed to connect back"
_STARTS_MAX = 8


def finished(writer) -> StreamingQuery:
    """Run a query to its end."""
    for starts_left in reversed(range(_STARTS_MAX)):
        query = writer.start()
        try:
            query.awaitTermination()
            return query
        except StreamingQueryException as error:
            if not starts_left or NO_WORKER not in str(error):
                raise
    raise AssertionError("the last start returns or raises")


def running_query(writer) -> StreamingQuery:
    """Start a query and wait for its first progress."""
    for _ in range(_STARTS_MAX):
        query = writer.start()
        while query.isActive and not query.recentProgress:
            time.sleep(0.1)
        if query.isActive:
            return query
        assert NO_WORKER in str(query.exception())
    raise AssertionError(f"started {_STARTS_MAX} times")
