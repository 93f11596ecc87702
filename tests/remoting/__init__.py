"""Tests of connections, over real sockets of 127.0.0.1."""
