"""Draws a learned reward: maps beside the true one, rewards along episodes, and sensitivities."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import numpy as np

from imitbench.errors import InputError
from imitbench.report import text
from imitbench.report.html_markup import (
    Markup,
    block,
    fact,
    html_document,
    join,
    tag,
    theme_picker,
)
from imitbench.report.html_tables import HtmlColumn, TableCell, finite, table
from imitbench.report.inline_svg import inline_svg
from imitbench.report.model import PALETTE
from imitbench.report.plots import GRAY, WIDTH, Plot, rendered, require_matplotlib, styled
from imitbench.rewards.pictures import REPEATS, Behavior, RewardMap, RewardPicture, Scale
from imitbench.util.files import atomic_write_bytes
from imitbench.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

PictureFormat: TypeAlias = Literal["png", "svg", "html"]
MOST_BARS = 30
"""Most dimensions that the figure shows; tables and JSON have all."""
# Rewards have no zero that means anything, so the colors are sequential. The map's brightness
# rises from end to end, also in greyscale.
COLORS = "viridis"
STYLES = ("report.css", "reward.css")
SCRIPTS = ("theme.js", "elements.js", "tables.js", "reward_start.js")


def picture_format(path: Path) -> PictureFormat:
    """Returns the format that the suffix of a file asks for.

    Args:
        path: File to write.

    Raises:
        InputError: There is no such format.
    """
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in get_args(PictureFormat):
        raise InputError(f"--to {path}: must end in .png, .svg or .html")
    return cast(PictureFormat, suffix)


def check_target(path: Path, *, replace: bool) -> None:
    """Checks before any work that a picture can be written to a path.

    Args:
        path: File to write; its suffix says the format.
        replace: Whether an existing file is replaced.

    Raises:
        InputError: The format is unknown, matplotlib is missing, the file exists, or something
            other than a file is there.
    """
    picture_format(path)
    require_matplotlib()
    if path.exists() and not path.is_file():
        raise InputError(f"--to {path}: is not a file; name a file")
    if path.exists() and not replace:
        raise InputError(f"--to {path}: already exists; name another file, or pass --force")


def write_picture(picture: RewardPicture, path: Path, *, replace: bool = False) -> None:
    """Draws a reward into a file, which readers see only when it is complete.

    Args:
        picture: The numbers.
        path: File to write: `.png`, `.svg`, or `.html` for a page with the figure and the numbers
            as tables, which loads nothing.
        replace: Whether an existing file is replaced.

    Raises:
        InputError: See `check_target`; or the file cannot be written.
    """
    check_target(path, replace=replace)
    kind = picture_format(path)
    content = render_page(picture).encode() if kind == "html" else render_figure(picture, kind)
    try:
        atomic_write_bytes(path.resolve(), content)
    except OSError as error:
        raise InputError(f"--to {path}: cannot be written ({error.strerror})") from error


def render_figure(picture: RewardPicture, kind: Literal["png", "svg"]) -> bytes:
    """Draws a reward; equal numbers give equal files.

    Args:
        picture: The numbers.
        kind: Format of the file.

    Returns:
        The content of the file.

    Raises:
        InputError: matplotlib is not installed.
    """
    return _rendered(picture, " ".join(_caption(picture)), kind)


def render_page(picture: RewardPicture) -> str:
    """Returns a page for browsers with the figure and its numbers, which loads nothing.

    Args:
        picture: The numbers.

    Raises:
        InputError: matplotlib is not installed.
    """
    figure = tag("figure", inline_svg(_rendered(picture, "", "svg"), _title(picture)),
                 class_="drawn")  # fmt: skip
    caption = [tag("p", sentence, class_="lead") for sentence in _caption(picture)]
    steps = sum(len(rewards) for behavior in picture.behaviors for rewards in behavior.true)
    episodes = sum(len(behavior.true) for behavior in picture.behaviors)
    main = [
        block("figure", "Figure", figure, *caption),
        block("episodes", "Along episodes", _episode_table(picture)),
        block("sensitivity", "Sensitivity", _sensitivity_table(picture)),
    ]
    body = join(
        tag("a", "Skip to the figure", href="#figure", class_="skip"),
        tag(
            "header",
            tag("div", tag("p", "imitbench", class_="brand"), theme_picker(), class_="bar"),
            tag("h1", _title(picture)),
            tag("ul", fact(episodes, "episode"), fact(steps, "step"), class_="facts"),
            class_="top",
        ),
        tag("main", *main),
        tag("footer", tag("p", f"Made by imitbench {__version__}.")),
    )
    return html_document(_title(picture), body, styles=STYLES, scripts=SCRIPTS)


def _title(picture: RewardPicture) -> str:
    where = picture.environment
    on = "" if f" on {where}" in picture.reward else f", on {where}"
    return text.one_line(f"Learned reward: {picture.reward}{on}")


def _caption(picture: RewardPicture) -> list[str]:
    """Returns the sentences that explain the figure."""
    drawn = picture.map
    made = f"Maps: the action is {drawn.action}; {drawn.rest}."
    if drawn.true is None:
        made += (
            " The environment cannot be put into these states, so the true reward is that of the "
            "steps in visited states."
        )
    elif drawn.agreement is not None:
        made += f" Rank correlation over the map: {_number(drawn.agreement.spearman)}."
    played = len(picture.behaviors[-1].true)
    return [
        made,
        f"Episodes: the first of {played} of each behavior, with sampled actions; rank correlation "
        "(Spearman) of learned and true reward over the steps of all of them. Each reward is "
        "standardized by its own mean and deviation over the steps of all episodes.",
        "Bars: mean absolute change of the learned reward when one dimension is permuted among "
        f"{picture.steps:,} visited steps, mean of {REPEATS} permutations (permutation importance, "
        f"Breiman 2001). Seed: {picture.seed}.",
    ]


def _rendered(picture: RewardPicture, caption: str, kind: Literal["png", "svg"]) -> bytes:
    require_matplotlib()
    with styled():
        plot = Plot("reward", caption, partial(_draw, picture))
        return rendered(plot, _title(picture), kind)


def _draw(picture: RewardPicture) -> Figure:
    """Draws the maps, the episodes with their legend, and the bars, from top to bottom."""
    from matplotlib.figure import Figure

    bars = 0.17 * min(MOST_BARS, len(picture.sensitivities)) + 0.6
    heights = (2.5, 1.9, 0.25, bars)
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    # Rows with columns of their own: the color bars of one take no room from another.
    rows: Any = figure.subfigures(4, 1, height_ratios=heights)
    maps, episodes, legend, sensitivity = rows
    _draw_maps(maps, picture.map)
    _draw_episodes(picture, episodes, legend)
    _draw_bars(picture, sensitivity.subplots())
    return figure


def _draw_maps(figure: SubFigure, drawn: RewardMap) -> None:
    """Draws the learned reward at the left and the true one at the right, with color bars.

    The rewards have scales of their own, as the scale of a learned reward is arbitrary.
    """
    learned, true = figure.subplots(1, 2)
    shown: list[Any] = [_draw_map(learned, drawn, drawn.learned)]
    values, name = drawn.true, "true reward"
    if values is not None:
        shown.append(_draw_map(true, drawn, values))
    else:
        x, y, values = drawn.visited
        name = "true reward of visited states"
        shown.append(true.scatter(x, y, c=values, s=4, cmap=COLORS, lw=0, rasterized=True))
        true.set_xlim(drawn.x[0], drawn.x[-1])
        true.set_ylim(drawn.y[0], drawn.y[-1])
    every = ((learned, "learned reward", drawn.learned), (true, name, values))
    for (axes, title, rewards), colored in zip(every, shown, strict=True):
        axes.set_xlabel(text.one_line(drawn.labels[0]), fontsize=8)
        axes.set_ylabel(text.one_line(drawn.labels[1]), fontsize=8)
        axes.tick_params(labelsize=7.5)
        if Scale.of(rewards).std == 0:  # a color bar would show a range that there is not
            axes.set_title(f"{title}: always {rewards.flat[0]:.3g}", fontsize=8.5)
            continue
        axes.set_title(title, fontsize=8.5)
        bar = figure.colorbar(colored, ax=axes, pad=0.02)
        bar.ax.tick_params(labelsize=7)
        bar.outline.set_visible(False)


def _draw_map(axes: Axes, drawn: RewardMap, rewards: np.ndarray[Any, Any]) -> Any:
    return axes.pcolormesh(
        drawn.x, drawn.y, rewards, shading="nearest", cmap=COLORS, rasterized=True
    )


def _draw_episodes(picture: RewardPicture, figure: SubFigure, below: SubFigure) -> None:
    """Draws both rewards along the first episode of each behavior."""
    lines: list[Any] = []
    panels = figure.subplots(1, len(picture.behaviors), sharey=True, squeeze=False)[0]
    for axes, behavior in zip(panels, picture.behaviors, strict=True):
        true, learned = behavior.true[0], behavior.learned[0]
        at = np.arange(len(true))
        lines = [
            *axes.plot(at, picture.learned_scale.apply(learned), color=PALETTE[0], lw=1.3),
            # Dashed, so that the lines differ without color.
            *axes.plot(
                at, picture.true_scale.apply(true), color=PALETTE[1], lw=1.1, ls=(0, (4, 2))
            ),
        ]
        axes.set_title(
            f"{behavior.name}: rank correlation {_number(behavior.agreement.spearman)}", fontsize=8
        )
        axes.set_xlabel("step", fontsize=8)
        axes.tick_params(labelsize=7.5)
        axes.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
    panels[0].set_ylabel("standardized reward", fontsize=8)
    names = [
        f"{name} reward: (r - {scale.mean:.3g}) / {scale.std:.3g}".replace("- -", "+ ")
        if scale.std > 0
        else f"{name} reward: always {scale.mean:.3g}"
        for name, scale in (("learned", picture.learned_scale), ("true", picture.true_scale))
    ]
    below.legend(lines, names, loc="center", ncols=2, frameon=False, fontsize=8)


def _draw_bars(picture: RewardPicture, axes: Axes) -> None:
    """Draws the sensitivities, of observation and action in different colors and hatches."""
    known = [sensitivity for sensitivity in picture.sensitivities if sensitivity.share is not None]
    axes.set_xlabel("mean change when permuted, as a share of the reward's deviation", fontsize=8)
    axes.tick_params(labelsize=7.5)
    if not known:
        axes.set_yticks([])
        axes.text(0.0, 0.5, "the learned reward is constant", color=GRAY, fontsize=8,
                  transform=axes.transAxes)  # fmt: skip
        return
    if len(known) > MOST_BARS:
        chosen = sorted(known, key=lambda sensitivity: sensitivity.share or 0.0)[-MOST_BARS:]
        known = [sensitivity for sensitivity in known if sensitivity in chosen]
    shares = [sensitivity.share or 0.0 for sensitivity in known]
    for y, (sensitivity, share) in enumerate(zip(known, shares, strict=True)):
        acted = sensitivity.kind == "action"
        axes.barh(y, share, 0.7, color=PALETTE[3 if acted else 0], alpha=0.85,
                  hatch="///" if acted else None, edgecolor="white")  # fmt: skip
        axes.text(share, y, f" {share:.2f}", va="center", fontsize=7)
    axes.set_yticks(range(len(known)), [text.one_line(sensitivity.name) for sensitivity in known])
    axes.set_ylim(len(known) - 0.4, -0.6)
    axes.set_xlim(0.0, 1.12 * max(*shares, 1e-3))
    left_out = len(picture.sensitivities) - len(known)
    more = f"; the {left_out} smallest are left out" if left_out else ""
    axes.set_title(f"sensitivity of the learned reward (hatched: action){more}", fontsize=8.5)


def _episode_table(picture: RewardPicture) -> Markup:
    columns = [
        HtmlColumn("Behavior"),
        *(
            HtmlColumn(name, number=True)
            for name in (
                "Episodes",
                "Steps",
                "Learned return",
                "True return",
                "Spearman",
                "Pearson",
            )
        ),
    ]
    rows = [_episode_row(behavior) for behavior in picture.behaviors]
    caption = (
        "Mean returns of whole episodes, and correlations of learned and true reward over all "
        f"steps. {_scale_text('Learned', picture.learned_scale)} "
        f"{_scale_text('True', picture.true_scale)}"
    )
    return table(columns, rows, label="Along episodes", caption=caption)


def _episode_row(behavior: Behavior) -> list[TableCell]:
    numbers: list[tuple[float | None, str]] = [
        (len(behavior.true), "d"),
        (sum(map(len, behavior.true)), "d"),
        (float(np.mean([rewards.sum() for rewards in behavior.learned])), ".2f"),
        (float(np.mean([rewards.sum() for rewards in behavior.true])), ".2f"),
        (behavior.agreement.spearman, ".2f"),
        (behavior.agreement.pearson, ".2f"),
    ]
    shown = [
        TableCell(text.NOTHING if value is None else format(value, spec), finite(value))
        for value, spec in numbers
    ]
    return [TableCell(behavior.name), *shown]


def _sensitivity_table(picture: RewardPicture) -> Markup:
    columns = [HtmlColumn("Dimension"), HtmlColumn("Of"), HtmlColumn("Share", number=True)]
    rows = [
        [
            TableCell(sensitivity.name),
            TableCell(sensitivity.kind),
            TableCell(_number(sensitivity.share), finite(sensitivity.share)),
        ]
        for sensitivity in picture.sensitivities
    ]
    caption = "Mean change of the learned reward when permuted, as a share of its deviation."
    return table(columns, rows, label="Sensitivity", caption=caption)


def _scale_text(name: str, scale: Scale) -> str:
    return f"{name} reward: mean {scale.mean:.3g}, deviation {scale.std:.3g}."


def _number(value: float | None) -> str:
    return text.NOTHING if value is None else f"{value:.2f}"
