"""Learners: adapters with which the harness trains each algorithm."""
