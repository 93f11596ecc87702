"""Consume queues: fixed-size units that point into the commit log."""
