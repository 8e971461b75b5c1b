"""The tables of claims in the documents, as Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from imitbench.cards.catalog import algorithm_names
from imitbench.published.claim_outcomes import ComparedClaim, compare_claims
from imitbench.published.claims import Claim
from imitbench.records.bundled_cards import bundled_algorithm
from imitbench.records.published import PublishedRun
from imitbench.report.claims_table import claims_summary, claims_tables
from imitbench.report.markdown import escape, laid_out


def render_claims(claims: Sequence[Claim], runs: Iterable[PublishedRun]) -> str:
    """Writes a table and the commands for each algorithm, and the algorithms without a claim.

    Args:
        claims: The claims.
        runs: All published runs.

    Returns:
        GitHub-flavoured Markdown without a newline at the end.
    """
    compared = compare_claims(claims, runs)
    blocks = [claims_summary(compared)]
    for algo, table in claims_tables(compared).items():
        rows = [each for each in compared if each.claim.algo == algo]
        blocks += [f"### {escape(table.title)}", *laid_out(table), *_notes(rows), _commands(rows)]
    return "\n\n".join([*blocks, *_without({claim.algo for claim in claims})])


def _notes(rows: Sequence[ComparedClaim]) -> list[str]:
    notes: dict[str, list[str]] = defaultdict(list)
    for each in rows:
        if each.claim.note:
            notes[each.claim.note].append(str(each.number))
    listed = [f"- {', '.join(numbers)}: {escape(note)}." for note, numbers in notes.items()]
    return ["\n".join(listed)] if listed else []


def _commands(rows: Sequence[ComparedClaim]) -> str:
    numbers: dict[str, list[str]] = defaultdict(list)
    for each in rows:
        claim, own = each.claim, each.own
        command = (
            claim.command(seeds=own.seeds, pack=own.pack, device=own.device)
            if own
            else claim.command()
        )
        numbers[command].append(str(each.number))
    lines = [f"{command}  # {', '.join(each)}" for command, each in numbers.items()]
    return "\n".join(["```text", *lines, "```"])


def _without(named: set[str]) -> list[str]:
    """Returns a paragraph on the methods of papers that no claim is about."""
    cards = [card for name in algorithm_names() if (card := bundled_algorithm(name)) is not None]
    others = [card for card in cards if card.role == "method" and card.name not in named]
    if not others:
        return []
    names = ", ".join(f"`{card.name}`" for card in others)
    return ["### Methods without a claim", f"No figure was found as a number for {names}."]
