"""Tests with malicious peers."""
