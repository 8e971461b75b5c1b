"""Writes the page that tells how to submit results."""

from __future__ import annotations

from collections.abc import Sequence

from imitbench.report.html_markup import Markup, block, tag
from imitbench.report.leaderboard import page
from imitbench.report.leaderboard.model import SUBMIT_PAGE, Board

_Step = tuple[str, str, str, Sequence[str]]

STEPS: tuple[_Step, ...] = (
    (
        "method",
        "1. Have a method",
        "Skip this for a method that ships with imitbench. Otherwise start from a template, which "
        "runs without changes, and let it be checked: that it resumes, and reads no reward.",
        ("imitbench init-algo my_method", "imitbench check-algo ./my_method"),
    ),
    (
        "run",
        "2. Run it",
        "On every environment of a suite, with seeds counted from 0, ten for a headline. Add a "
        "baseline if you like; all methods of a submission need the same seeds. Failed runs are "
        "results, too. Or let a race, whose design is registered first, find the number of seeds.",
        (
            "imitbench run --algo ./my_method --algo bc --suite classic --seeds 10",
            "imitbench race ./my_method bc --suite classic --out race",
        ),
    ),
    (
        "look",
        "3. Look at it",
        "The report has the numbers, curves and failures that the board will show.",
        ("imitbench report --out runs --format html --to report.html",),
    ),
    (
        "export",
        "4. Export it",
        "Writes specifications, outcomes and every evaluation episode as text, with digests. Names "
        "of machines and tracebacks are left out. The name of the folder is yours on the board: "
        "letters, digits, dots, dashes or underscores.",
        ("imitbench results export submissions/my-name --out runs",),
    ),
    (
        "check",
        "5. Check it",
        "The same checks as those of the board, and the whole intake on your machine.",
        (
            "imitbench leaderboard validate submissions/my-name --against published",
            "imitbench leaderboard intake submissions/my-name",
        ),
    ),
)
"""Anchor, title, text and commands of each step."""

_AFTERWARDS = (
    "The files are validated: digests, specifications, scores computed again from the episodes, "
    "seeds, budgets, references. Nothing in a submission is imported or executed.",
    "Some runs are drawn by a text that became public after you submitted, and trained again.",
    "The outcome is a record that names who verified, the public text, the runs, and what came "
    "out. It stands on the board with your rows. If a run differs, the submission has no rank.",
)
_MARKS = (
    ("validated", "Every check of the files passed."),
    ("verified (n of m runs trained again)", "In addition, others trained n of the m runs of a "
     "row again, and all agree."),
    ("differs when trained again", "A run of the submission came out differently. No rank."),
    ("checks failed", "Budgets, settings or seeds are not those of the cards. No rank."),
    (
        "registered race",
        "The number of seeds follows from a design. That it was registered first is the "
        "submitter's word, unless it was published elsewhere before.",
    ),
    ("superseded", "The same runs stand on the board with newer references. No rank."),
    ("external", "Numbers of another tool or paper; neither ranked, averaged nor checked."),
)  # fmt: skip
_RULES = (
    "Published results never change. A correction is a new folder beside the old one.",
    "If a suite measures its references again, “imitbench leaderboard rescore” scores the same "
    "runs with them. The board links both, and mixes versions in no table.",
    "Say what tuning has cost: values that “imitbench tune” wrote carry trials and steps.",
    "Runs of a method of your own are validated. They are verified when a maintainer has read its "
    "source and trains it.",
)


def render_submit(board: Board) -> str:
    """Writes the page that tells how to submit."""
    main = [_step(*step) for step in STEPS]
    main.append(block("pull", "6. Submit it", _where(board.submit_to)))
    main.append(block("then", "What happens then", page.bullets(_AFTERWARDS)))
    main.append(block("marks", "What the marks mean", page.definitions(_MARKS)))
    main.append(block("rules", "Rules", page.bullets(_RULES)))
    return page.render(board, SUBMIT_PAGE, "How to submit", main, facts=[])


def _step(anchor: str, title: str, caption: str, commands: Sequence[str]) -> Markup:
    code = tag("pre", tag("code", "\n".join(commands)), tabindex="0", class_="scroll")
    return block(anchor, title, tag("p", caption), code)


def _where(address: str | None) -> Markup:
    if address is None:
        return tag("p", "Send the folder to the maintainers of this board, or, if you maintain it, "
                   "create its repository with “imitbench leaderboard init”.")  # fmt: skip
    link = tag("a", address, href=address, rel="noreferrer")
    caption = "Add the folder below submissions/ in a clone of "
    return tag("p", caption, link, ", and open a pull request that changes nothing else.")
