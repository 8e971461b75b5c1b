"""Runs jobs on a SLURM cluster: profiles, the queue, submissions, and tasks on nodes."""

SLURM_FOLDER = ".slurm"
"""Folder of submissions and of the scheduler's logs, below a results folder."""

OPTION_HELP = {
    "profile": "resources that tasks request",
    "wait": "stay until the tasks are done",
    "min_task_minutes": "short runs share a task of this length",
}
"""Help of options that no other executor has, by keyword."""
