"""Runs on a SLURM cluster: profile, queue, submission, and what a task does on its node."""

SLURM_FOLDER = ".slurm"
"""Folder of submissions and of the scheduler's logs, below a results folder."""

OPTION_HELP = {
    "profile": "what tasks ask for",
    "wait": "stay until the tasks are done",
    "min_task_minutes": "short runs share a task of this length",
}
"""What options mean that no other executor has, by their keyword."""
