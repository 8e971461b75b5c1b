"""Whether tuned values beat the default, in a sentence."""

from __future__ import annotations

from imitbench.cli.output import count
from imitbench.tune.held_out_comparison import HeldOutComparison


def describe_verdict(contest: HeldOutComparison) -> str:
    """Says what came of a contest."""
    if len(contest.standings) == 1:
        return "no trial with other values than the default ones was completed"
    winner, default = contest.winner, contest.default
    if winner is None:
        return (
            "every candidate had a run that failed on held-out seeds; see `imitbench tune --show`"
        )
    if not default.scores or default.failed:
        return (
            f"undecided: {count(default.failed, 'run')} of the default values failed on held-out "
            "seeds"
        )
    means = f"{winner.mean:.4g} against {default.mean:.4g}"
    p = "" if winner.p_value is None else f", p = {winner.p_value:.3g}"
    who = winner.candidate.label
    if winner.decision == "better":
        return f"{who} beats the default values on held-out seeds ({means}{p})"
    if winner.decision == "not better":
        return f"tuning does not beat the default values on held-out seeds ({who}: {means}{p})"
    more = ""
    if winner.more_seeds:
        seeds = count(winner.more_seeds, "more held-out seed")
        more = f"; at least {seeds} would be needed to decide anything"
    return (
        f"undecided: {who} does not beat the default values for certain on held-out seeds "
        f"({means}{p}{more})"
    )
