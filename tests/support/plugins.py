"""Plug-ins for tests: folders with a card and a learner."""

CARD = """
schema_version: 1
name: {name}
title: {name}
summary: For tests.
implementation: {implementation}
needs: {{demos: true, action_spaces: [box]{needs}}}
budget_unit: {unit}
role: {role}
seconds_per_1000: 0.5
hyperparameters:
  learning_rate: {{type: float, default: 0.001, help: Step size.}}
  hidden_size: {{type: int, default: 8, help: Units.}}
  hidden_layers: {{type: int, default: 1, help: Layers.}}
  normalize_observations: {{type: bool, default: false, help: Whether.}}
  batch_size: {{type: int, default: 16, help: Transitions.}}
  ent_weight: {{type: float, default: 0.0, help: Weight.}}
  l2_weight: {{type: float, default: 0.0, help: Weight.}}
"""

PPO_OPTIONS = """\
  n_envs: {type: int, default: 2, help: x}
  n_steps: {type: int, default: 50, help: x}
  n_epochs: {type: int, default: 1, help: x}
  gamma: {type: float, default: 0.9, help: x}
  gae_lambda: {type: float, default: 0.9, help: x}
  clip_range: {type: float, default: 0.2, help: x}
  ent_coef: {type: float, default: 0.0, help: x}
  vf_coef: {type: float, default: 0.5, help: x}
  max_grad_norm: {type: float, default: 0.5, help: x}
  learning_rate_decay: {type: str, default: none, help: x}
  lean_ppo: {type: bool, default: true, help: x}
"""

LEARNER = """
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    pass
"""


def write_plugin(
    folder,
    source=LEARNER,
    name="mine",
    implementation="learner:Mine",
    unit="batches",
    needs="",
    role="method",
    options="",
):
    """Writes a plug-in with more `options`, lines of its card, and returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    card = CARD.format(name=name, implementation=implementation, unit=unit, needs=needs, role=role)
    (folder / "card.yaml").write_text(card + options)
    (folder / "learner.py").write_text(source)
    return folder
