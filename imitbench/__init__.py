"""Benchmark harness, leaderboard and library for imitation and reward learning."""

__version__ = "0.1.0"
