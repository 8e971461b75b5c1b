"""Runs on a SLURM cluster: profile, queue, submission, and what a task does on its node."""

SLURM_FOLDER = ".slurm"
"""Folder of submissions and of the scheduler's logs, below a results folder."""
