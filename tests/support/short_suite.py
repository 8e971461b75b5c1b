"""A suite with one environment of a bundled suite, whose episodes and budgets are short.

Runs of real commands evaluate a hundred episodes each, which takes longer than a short training.
"""

import shutil

import yaml

from imitbench.cards.catalog import suite_directory


def write_short_suite(folder, env="Pendulum-v1", suite="classic", steps=10, **budget):
    """Writes the suite and returns its folder.

    Args:
        folder: Folder to write; its name is the name of the suite.
        env: The environment, whose expert and demonstrations are the bundled ones.
        suite: The bundled suite that has it.
        steps: Length of episodes.
        budget: Amounts of the budget `quick`; by default, 20 batches and 64 steps.
    """
    bundled = suite_directory(suite)
    document = yaml.safe_load((bundled / "suite.yaml").read_text())
    card = document["environments"][env]
    card["kwargs"] = {**card.get("kwargs", {}), "max_episode_steps": steps}
    card["max_episode_steps"] = steps
    card["budgets"]["quick"] |= {"batches": 20, "env_steps": 64, **budget}
    folder.mkdir(parents=True)
    document |= {"name": folder.name, "environments": {env: card}}
    (folder / "suite.yaml").write_text(yaml.safe_dump(document))
    for place in (f"experts/{card['expert']['repo']}", f"demos/{card['demos']['repo']}"):
        shutil.copytree(bundled / place, folder / place)
    return folder
