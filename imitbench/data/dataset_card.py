"""The card (`README.md`) of a converted data set, as the hub displays it."""

from __future__ import annotations

from typing import Any

import yaml


def dataset_card(summary: dict[str, Any]) -> str:
    """Writes a card.

    Args:
        summary: From `imitbench.data.conversion.ConversionSummary.to_json`.

    Returns:
        Markdown with the hub's metadata. No licence is stated: only the data set's author
        knows it.
    """
    metadata = {
        "tags": ["imitation-learning", "reinforcement-learning", "imitbench"],
        "configs": [{"config_name": "default", "data_files": "data/*.parquet"}],
    }
    environment = summary["environment"] or "an environment that was not named"
    shortest, longest = summary["lengths"]
    has_rewards = summary["mean_return"] == summary["mean_return"]
    returns = (
        f"{summary['mean_return']:.2f} ± {summary['std_return']:.2f}"
        if has_rewards
        else "not recorded"
    )
    facts = {
        "trajectories": summary["rows"],
        "steps": summary["steps"],
        "length": f"{shortest} to {longest}",
        "return (mean ± standard deviation)": returns,
        "observation": summary["observation"],
        "action": summary["action"],
        "not marked as the end of an episode": summary["unfinished"],
        "converted from": f"{summary['source']} ({summary['form']})",
        "digest of the data files": summary["digest"],
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return (
        f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n"
        f"# Demonstrations on {environment}\n\n"
        f"| | |\n|---|---|\n{table}\n\n"
        "One row per trajectory: `obs` (length + 1 observations), `acts`, `infos` (texts), "
        f"`terminal`{', `rews`' if has_rewards else ''}.\n"
    )
