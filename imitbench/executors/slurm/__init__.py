"""Runs on a SLURM cluster: profile, queue, submission, and what a task does on its node."""

SLURM_FOLDER = ".slurm"
"""Folder of submissions and of the scheduler's logs, below a results folder."""

DEFAULT_MIN_TASK_MINUTES = 5.0
"""What a task should take at least: shorter runs share one."""
