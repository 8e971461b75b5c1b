"""A suite with environments of a bundled suite, whose episodes and budgets are short.

Runs of real commands evaluate a hundred episodes each, which takes longer than a short training.
"""

import shutil

import yaml

from imitbench.cards.catalog import suite_directory


def write_short_suite(folder, env="Pendulum-v1", suite="classic", steps=10, **budget):
    """Writes the suite and returns its folder.

    Args:
        folder: Folder to write; its name is the name of the suite.
        env: The environment, whose expert and demonstrations are the bundled ones; `None` for all.
        suite: The bundled suite that has it.
        steps: Length of episodes.
        budget: Amounts of the budget `quick`; by default, 20 batches and 64 steps.
    """
    bundled = suite_directory(suite)
    document = yaml.safe_load((bundled / "suite.yaml").read_text())
    chosen = document["environments"] if env is None else {env: document["environments"][env]}
    folder.mkdir(parents=True)
    for card in chosen.values():
        card["kwargs"] = {**card.get("kwargs", {}), "max_episode_steps": steps}
        card["max_episode_steps"] = steps
        card["budgets"]["quick"] |= {"batches": 20, "env_steps": 64, **budget}
        # A set without bundled trajectories collects 20,000 steps of its own before a first run.
        card["sets"] = {
            name: kept for name, kept in card.get("sets", {}).items() if kept.get("bundled", True)
        }
        sets = [kept["repo"] for kept in card["sets"].values()]
        demos = [f"demos/{repo}" for repo in (card["demos"]["repo"], *sets)]
        for part in (f"experts/{card['expert']['repo']}", *demos):
            shutil.copytree(bundled / part, folder / part)
    document |= {"name": folder.name, "environments": chosen}
    known = {name for card in chosen.values() for name in card.get("sets", {})}
    document["regimes"] = {
        name: regime
        for name, regime in document.get("regimes", {}).items()
        if known.issuperset(regime.get("mixture", {}))
    }
    (folder / "suite.yaml").write_text(yaml.safe_dump(document))
    return folder
