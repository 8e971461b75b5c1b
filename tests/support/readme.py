"""The commands and programs that the README shows."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands():
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    return [line for line in (re.sub(r"\s+#.*", "", line).strip() for line in lines) if line]


def cluster_commands():
    """Those that need a cluster."""
    return [command for command in commands() if command.startswith("slurm/")]
