"""Tests with peers that mean harm."""
