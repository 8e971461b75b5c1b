"""Chooses the recordings that together are the observation, in formats that name several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from imitbench.errors import InputError, did_you_mean
from imitbench.util.text_line import one_line


def choose_features(
    asked: Sequence[str], sizes: Mapping[str, int | None], *, where: str
) -> list[str]:
    """Chooses recordings of flat numbers, to be concatenated.

    Args:
        asked: Names in the order of concatenation; empty for all of flat numbers, sorted by name.
        sizes: Numbers per step of each recording; `None` if it is not flat, such as an image.
        where: Name of the data set in errors.

    Raises:
        InputError: A name does not exist or is not flat, or nothing is flat.
    """
    for name in asked:
        if name not in sizes:
            raise InputError(f"--obs {one_line(name, 60)}: {where}: {did_you_mean(name, sizes)}")
        if sizes[name] is None:
            raise InputError(
                f"--obs {one_line(name, 60)}: {where}: is not flat numbers; name others, such as "
                f"{', '.join(flat_names(sizes)) or 'none here'}"
            )
    chosen = list(dict.fromkeys(asked)) or flat_names(sizes)
    if not chosen:
        raise InputError(
            f"{where}: no observation of flat numbers among {one_line(', '.join(sizes), 120)}; "
            "images are not supported"
        )
    return chosen


def flat_names(sizes: Mapping[str, int | None]) -> list[str]:
    """Returns the names of recordings of flat numbers, sorted."""
    return sorted(name for name, size in sizes.items() if size is not None)


def choice_note(chosen: Sequence[str], sizes: Mapping[str, int | None]) -> str:
    """Returns a note on what the observation consists of, and what is left out."""
    parts = ", ".join(f"{name} ({sizes[name]})" for name in chosen)
    left = sorted(set(sizes) - set(chosen))
    rest = f"; not used: {one_line(', '.join(left), 120)}" if left else ""
    return f"observation: {one_line(parts, 160)}{rest}"
