"""The commands and programs in the README and similar pages."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = "README.md"
PAGES = (README, "docs/commands.md", "docs/hub.md")


def blocks(page, language):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(page=README):
    lines = [line for block in blocks(page, "bash") for line in block.splitlines()]
    return [line for line in (re.sub(r"\s+#.*", "", line).strip() for line in lines) if line]


def cluster_commands():
    """Returns the commands that need a cluster."""
    return [command for command in commands() if command.startswith("slurm/")]
