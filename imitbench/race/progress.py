"""Says what a race has decided, and what is still racing."""

from __future__ import annotations

from imitbench.race.driver import RaceStanding
from imitbench.report.race_tables import decision_line, racing_line
from imitbench.util.text_line import note


class RaceNotes:
    """Prints a line for each decision, and one for each batch, to stderr.

    Args:
        quiet: Whether to print nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._told = 0

    def looked(self, standing: RaceStanding) -> None:
        """Prints the new decisions, and what the next batch trains."""
        if self._quiet:
            return
        looks = standing.found.looks
        for look in looks[self._told :]:
            if look.outcome != "undecided":
                note(decision_line(look, standing.design))
        self._told = len(looks)
        if not standing.over:
            note(racing_line(standing.found, standing.design))

    def waiting(self) -> None:
        """Says that another process carries out this race."""
        if not self._quiet:
            note("another process is at work on this race; waiting for it")
