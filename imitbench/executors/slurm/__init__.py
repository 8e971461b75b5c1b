"""Runs on a SLURM cluster: profile, queue, submission, and what a task does on its node."""
