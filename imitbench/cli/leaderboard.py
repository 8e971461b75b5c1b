"""`imitbench leaderboard`: a site of published results, and checks of what others submit."""

from __future__ import annotations

import typer

from imitbench.cli.leaderboard_build import build_site
from imitbench.cli.leaderboard_validate import validate_submission
from imitbench.cli.leaderboard_verify import verify_submission

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Make a leaderboard, and check submissions to one.",
)
app.command("build")(build_site)
app.command("validate")(validate_submission)
app.command("verify")(verify_submission)
