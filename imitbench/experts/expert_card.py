"""The README of an expert, in the format of hub repositories."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from imitbench.cards.suite import EnvironmentCard
from imitbench.util.files import atomic_write_text


def write_expert_card(env_id: str, card: EnvironmentCard, directory: Path) -> None:
    """Writes `README.md` from `training.json` and `results.json`, in the expert's folder.

    Args:
        env_id: Gymnasium id.
        card: The environment's card.
        directory: Folder of the expert, with these files.
    """
    training = json.loads((directory / "training.json").read_text())
    results = json.loads((directory / "results.json").read_text())
    mean, std = results["mean_reward"], results["std_reward"]
    metric = {"type": "mean_reward", "value": f"{mean:.2f} +/- {std:.2f}", "name": "mean_reward"}
    exact = card.expert.algo == "exact"
    name = "Optimal" if exact else card.expert.algo.upper()
    metadata = {
        "library_name": "imitbench",
        "license": "mit",
        "tags": [env_id, "reinforcement-learning", "imitbench"],
        "model-index": [
            {
                "name": name,
                "results": [
                    {
                        "task": {"type": "reinforcement-learning"},
                        "dataset": {"name": env_id, "type": env_id},
                        "metrics": [metric],
                    }
                ],
            }
        ],
    }
    if exact:
        origin = (
            f"Computed by `{training['command']}` from the environment's model: no steps were "
            "taken. "
        )
        files = "Settings are in `config.yml`."
    else:
        origin = (
            f"Trained by `{training['command']}`: {training['env_steps']:,} steps in "
            f"{training['wall_s']:.0f} s on one core, seed {card.expert.seed}. " + _aids(card)
        )
        files = "Hyper-parameters are in `config.yml`, the learning curve in `training.json`."
    acting = "deterministic" if results["is_deterministic"] else "stochastic"
    text = (
        f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n"
        f"# {name} expert on {env_id}\n\n"
        f"Mean return {mean:.2f} ± {std:.2f} over {results['n_eval_episodes']} episodes of the "
        f"{acting} policy.\n\n"
        f"{origin}{files}\n\n"
        "The policy is `policy.json` (architecture) and `policy.safetensors` (weights); "
        "neither is a pickle.\n"
    )
    atomic_write_text(directory / "README.md", text)


def _aids(card: EnvironmentCard) -> str:
    given = ", ".join(f"`{name}={value}`" for name, value in card.expert.training_kwargs.items())
    return f"While it trained, and never since, the environment had {given}. " if given else ""
