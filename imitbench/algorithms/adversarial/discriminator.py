"""What the discriminator is trained on, and how well it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.sac.policies import SACPolicy
from torch.nn import functional

from imitbench.algorithms import base
from imitbench.data import types
from imitbench.util.networks import evaluating
from imitbench.util.util import safe_to_numpy

Array = npt.NDArray[Any]
FIELDS = ("obs", "acts", "next_obs", "dones")


class ExpertBatches:
    """Batches of expert transitions without end: passes in a new random order each.

    Args:
        transitions: The data.
        batch_size: Transitions in each batch; the rest of a pass is left out.
        rng: Source of the orders.

    Raises:
        ValueError: There is less data than one batch.
    """

    def __init__(
        self, transitions: types.Transitions, batch_size: int, rng: np.random.Generator
    ) -> None:
        base.check_enough(transitions, batch_size)
        self._data = {name: getattr(transitions, name) for name in FIELDS}
        self._batch_size = batch_size
        self._rng = rng
        self._order: Array = np.empty(0, dtype=np.int64)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        return self

    def __next__(self) -> dict[str, Array]:
        """The next batch: `obs`, `acts`, `next_obs` and `dones`."""
        if len(self._order) < self._batch_size:
            self._order = self._rng.permutation(len(self._data["acts"]))
        index, self._order = np.split(self._order, [self._batch_size])
        return {name: array[index] for name, array in self._data.items()}

    def state_dict(self) -> dict[str, Any]:
        """What is left of the current pass."""
        return {"size": len(self._data["acts"]), "order": self._order.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave.

        Raises:
            ValueError: It belongs to another amount of data.
        """
        size = len(self._data["acts"])
        if state["size"] != size:
            raise ValueError(f"state is of {state['size']} transitions, but there are {size}")
        self._order = np.array(state["order"])


def given_batches(
    batches: Iterable[types.TransitionMapping], batch_size: int
) -> Iterator[dict[str, Array]]:
    """Batches that the user made, again and again.

    Raises:
        ValueError: A batch has another size or lacks a field, or there are none left.
    """
    checked = base.make_data_loader(batches, batch_size)
    while True:
        empty = True
        for batch in checked:
            empty = False
            yield as_fields(batch, "demonstrations", batch_size)
        if empty:
            raise ValueError(
                "demonstrations: a pass has no batches (an iterator gives a single pass)"
            )


def as_fields(samples: Mapping[str, Any], name: str, size: int) -> dict[str, Array]:
    """The four fields of a batch as arrays.

    Args:
        samples: Arrays or tensors under at least `obs`, `acts`, `next_obs` and `dones`.
        name: What the caller calls them.
        size: How many samples there must be.

    Raises:
        ValueError: A field is missing or has another length.
    """
    for field in FIELDS:
        if field not in samples:
            raise ValueError(f"{name} has no '{field}'; it needs {', '.join(FIELDS)}")
        if len(samples[field]) != size:
            raise ValueError(
                f"{name} has {len(samples[field])} entries in '{field}', not demo_batch_size {size}"
            )
    # Dictionary observations were refused when the algorithm was built.
    return {field: np.asarray(safe_to_numpy(samples[field])) for field in FIELDS}


def log_action_probability(policy: BasePolicy, obs: th.Tensor, acts: th.Tensor) -> th.Tensor | None:
    """Log-probability of actions under a policy, without gradients.

    The policy's normalizing layers stay as they are.

    Args:
        policy: The policy.
        obs: Observations, shape (batch, *observation_shape).
        acts: Actions, shape (batch, *action_shape).

    Returns:
        Shape (batch,); `None` if the policy is deterministic in training, as DQN's and TD3's.
    """
    with th.no_grad(), evaluating(policy):
        if isinstance(policy, ActorCriticPolicy):
            return policy.get_distribution(obs).log_prob(acts)
        if isinstance(policy, SACPolicy):
            actor = policy.actor
            mean, log_std, kwargs = actor.get_action_dist_params(obs)
            squashed = actor.action_dist.proba_distribution(mean, log_std, **kwargs)
            # The actor's distribution lives on [-1, 1]; the edge itself has no density.
            box = cast(spaces.Box, policy.action_space)
            low = th.as_tensor(box.low, device=acts.device)
            high = th.as_tensor(box.high, device=acts.device)
            edge = 1 - th.finfo(th.float32).eps
            scaled = (2.0 * (acts - low) / (high - low) - 1.0).clamp(-edge, edge)
            # Densities change by the scale of each dimension.
            return squashed.log_prob(scaled) - th.log((high - low) / 2.0).sum()
    return None


def compute_train_stats(
    disc_logits_expert_is_high: th.Tensor,
    labels_expert_is_one: th.Tensor,
    disc_loss: th.Tensor,
) -> Mapping[str, float]:
    """Measures how well a discriminator tells expert from generator.

    Args:
        disc_logits_expert_is_high: Logits, shape (batch,); positive where the expert is the
            likelier origin.
        labels_expert_is_one: 1 for the expert's samples and 0 for the generator's, shape
            (batch,).
        disc_loss: The loss, a single number.

    Returns:
        Loss, accuracies (`nan` without samples of a kind), entropy in nats, and the expert's
        share in the labels and in the predictions.
    """
    with th.no_grad():
        logits = disc_logits_expert_is_high
        is_expert = labels_expert_is_one.bool()
        says_expert = logits > 0
        correct = (says_expert == is_expert).float()
        # H(p) of a Bernoulli in terms of its logit.
        entropy = functional.softplus(logits) - logits * th.sigmoid(logits)
        numbers = th.stack(
            [
                disc_loss,
                correct.sum(),
                (correct * is_expert).sum(),
                entropy.mean(),
                is_expert.sum(),
                says_expert.sum(),
            ]
        ).tolist()
    loss, right, right_expert, mean_entropy, n_expert, n_says_expert = numbers
    n = len(logits)
    n_generated = n - n_expert
    return {
        "disc_loss": loss,
        "disc_acc": right / n,
        "disc_acc_expert": right_expert / n_expert if n_expert else float("nan"),
        "disc_acc_gen": (right - right_expert) / n_generated if n_generated else float("nan"),
        "disc_entropy": mean_entropy,
        "disc_proportion_expert_true": n_expert / n,
        "disc_proportion_expert_pred": n_says_expert / n,
        "n_expert": n_expert,
        "n_generated": n_generated,
    }
