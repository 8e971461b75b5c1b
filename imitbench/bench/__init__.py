"""Runs benchmarks: plans, specifications, jobs, workers and the evaluation protocol."""
