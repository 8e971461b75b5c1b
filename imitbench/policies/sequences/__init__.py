"""Policies that see or plan several steps: recurrent ones, and those that act in chunks.

Each method is one file. `imitbench.algorithms.sequence_cloning.SequenceCloning` trains all of them.
"""
