"""Counters, rates, latencies and consumer lag."""
