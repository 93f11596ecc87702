"""Apache RocketMQ 4.9.7 as a peer for the tests: its jars, servers and client."""
