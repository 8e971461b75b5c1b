"""The discriminator: its batches, a training step, its regularization and its statistics."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.sac.policies import SACPolicy
from torch.nn import functional

from imitbench.algorithms import base
from imitbench.algorithms.demonstration_fit import FIELDS, check_fit, placeholder_actions
from imitbench.data import types
from imitbench.policies.bounded_actions import ActionBounds, clipped_log_prob
from imitbench.rewards.reward_nets import RewardNet
from imitbench.util.actions import action_rows
from imitbench.util.extras import import_extra
from imitbench.util.networks import evaluating
from imitbench.util.squashed_gaussian import squashed_log_prob
from imitbench.util.util import AnyPath, safe_to_numpy

Array = npt.NDArray[Any]


class ExpertBatches:
    """Endless batches of expert transitions; each pass has a new random order.

    Args:
        transitions: Must have next observations.
        batch_size: Transitions in each batch; an incomplete last batch is dropped.
        rng: Draws the order of each pass.

    Raises:
        ValueError: There are fewer transitions than `batch_size`.
    """

    def __init__(
        self, transitions: types.Transitions, batch_size: int, rng: np.random.Generator
    ) -> None:
        base.check_enough(transitions, batch_size)
        self._data = {name: getattr(transitions, name) for name in FIELDS}
        self._batch_size = batch_size
        self._rng = rng
        self._order: Array = np.empty(0, dtype=np.int64)

    @property
    def transitions(self) -> types.TransitionsMinimal:
        """All observations and actions."""
        obs, acts = self._data["obs"], self._data["acts"]
        return types.TransitionsMinimal(obs=obs, acts=acts, infos=np.array([{}] * len(acts)))

    @property
    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of each entry of the observations, shape (size,), float64."""
        flat = self._data["obs"].reshape(len(self._data["obs"]), -1).astype(np.float64)
        return flat.mean(axis=0), flat.var(axis=0)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        return self

    def __next__(self) -> dict[str, Array]:
        """The next batch: `obs`, `acts`, `next_obs` and `dones`."""
        if len(self._order) < self._batch_size:
            self._order = self._rng.permutation(len(self._data["acts"]))
        index, self._order = np.split(self._order, [self._batch_size])
        return {name: array[index] for name, array in self._data.items()}

    def state_dict(self) -> dict[str, Any]:
        """The rest of the current pass."""
        return {"size": len(self._data["acts"]), "order": self._order.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ValueError: The state is of another number of transitions.
        """
        size = len(self._data["acts"])
        if state["size"] != size:
            raise ValueError(f"state is of {state['size']} transitions, not {size}")
        self._order = np.array(state["order"])


def checked_batches(
    batches: Iterable[types.TransitionMapping], batch_size: int
) -> Iterator[dict[str, Array]]:
    """Repeats batches that the user made.

    Raises:
        ValueError: A batch has another size or lacks a field, or a pass has no batches.
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


def endless_batches(
    demonstrations: base.AnyTransitions,
    batch_size: int,
    venv: VecEnv,
    rng: np.random.Generator,
    *,
    read_actions: bool = True,
) -> Iterator[dict[str, Array]]:
    """Endless batches of demonstrations: `ExpertBatches`, unless given as batches.

    Args:
        demonstrations: Trajectories, transitions, or an iterable of batches of `batch_size`.
        batch_size: Transitions in each batch.
        venv: Environment whose spaces the demonstrations must fit.
        rng: Draws the order of each pass.
        read_actions: Whether actions are read; if not, `placeholder_actions` stand for them.

    Raises:
        ValueError: Demonstrations are empty, not finite, fewer than a batch, of other shapes, or
            lack next observations.
    """
    _, given = base.split_kinds(demonstrations)
    if not isinstance(given, types.TransitionsMinimal):
        batches = checked_batches(given, batch_size)
        if read_actions:
            return batches
        acts = placeholder_actions(venv.action_space, batch_size)
        return ({**batch, "acts": acts} for batch in batches)
    if not isinstance(given, types.Transitions):
        raise ValueError("demonstrations: transitions need next_obs and dones")
    if not read_actions:
        acts = placeholder_actions(venv.action_space, len(given))
        given = dataclasses.replace(given, acts=acts)
    for obs in (given.obs, given.next_obs):
        check_fit(obs, given.acts, venv.observation_space, venv.action_space)
    return ExpertBatches(given, batch_size, rng)


def as_fields(samples: Mapping[str, Any], name: str, size: int) -> dict[str, Array]:
    """Converts the four fields of a batch to arrays.

    Args:
        samples: Arrays or tensors under at least `obs`, `acts`, `next_obs` and `dones`.
        name: Name of the argument for error messages.
        size: Required number of samples.

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
    # The constructor of the algorithm rejects dictionary observations.
    return {field: np.asarray(safe_to_numpy(samples[field])) for field in FIELDS}


def train_step(
    optimizer: th.optim.Optimizer,
    logits_of: Callable[[Mapping[str, Array]], th.Tensor],
    expert: Mapping[str, Array],
    generated: Mapping[str, Array],
    part_size: int,
    label_smoothing: float = 0.0,
    penalty_of: Callable[[Mapping[str, Array], Mapping[str, Array]], th.Tensor] | None = None,
) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
    """Takes one optimizer step on the discriminator.

    Args:
        optimizer: Optimizer of the discriminator's parameters.
        logits_of: Maps a batch with `FIELDS` to logits, shape (batch,); high for the expert.
        expert: The expert's samples under `FIELDS`.
        generated: As many of the generator.
        part_size: Samples of each kind in one pass through the network, a divisor of their number;
            gradients are accumulated.
        label_smoothing: Target probability of the wrong label.
        penalty_of: A further term of the loss, given the samples of expert and generator.

    Returns:
        All logits, shape (2 * samples,); their labels, 1 for the expert and 0 for the generator;
        and the mean cross-entropy, a scalar, without the penalty.
    """
    size = len(expert["acts"])
    all_logits, all_labels, losses = [], [], []
    optimizer.zero_grad()
    for start in range(0, size, part_size):
        part = slice(start, start + part_size)
        sides = [{name: side[name][part] for name in FIELDS} for side in (expert, generated)]
        logits = logits_of({name: np.concatenate([e[name] for e in sides]) for name in FIELDS})
        labels = th.cat([logits.new_ones(part_size), logits.new_zeros(part_size)])
        targets = labels.clamp(label_smoothing, 1 - label_smoothing) if label_smoothing else labels
        share = part_size / size
        loss = functional.binary_cross_entropy_with_logits(logits, targets) * share
        whole = loss if penalty_of is None else loss + share * penalty_of(*sides)
        whole.backward()  # type: ignore[no-untyped-call]
        all_logits.append(logits.detach())
        all_labels.append(labels)
        losses.append(loss.detach())
    optimizer.step()
    return th.cat(all_logits), th.cat(all_labels), th.stack(losses).sum()


def log_action_probability(
    policy: BasePolicy, obs: th.Tensor, acts: th.Tensor, bounds: ActionBounds | None = None
) -> th.Tensor | None:
    """Log-probability of actions under a policy, without gradients.

    Statistics of normalizing layers do not change.

    Args:
        policy: Policy of any algorithm of Stable-Baselines3.
        obs: Observations, shape (batch, *observation_shape).
        acts: Actions, shape (batch, *action_shape).
        bounds: Bounds that actions were clipped to; then, the density is that of clipped actions,
            see `imitbench.policies.bounded_actions`. `None` for the density before clipping.

    Returns:
        Shape (batch,); `None` if the policy is deterministic in training, as in DQN and TD3.
    """
    acts = action_rows(acts, policy.action_space)
    with th.no_grad(), evaluating(policy):
        if isinstance(policy, ActorCriticPolicy):
            distribution = policy.get_distribution(obs)
            if bounds is None or not isinstance(distribution, DiagGaussianDistribution):
                return distribution.log_prob(acts)
            normal = distribution.distribution
            return clipped_log_prob(normal.mean, normal.stddev, acts, bounds)
        if isinstance(policy, SACPolicy):
            actor = policy.actor
            mean, log_std, kwargs = actor.get_action_dist_params(obs)
            # The actor's distribution is on (-1, 1), without its ends.
            box = bounds or ActionBounds.of(policy.action_space, acts.device)
            scaled = 2.0 * (acts - box.low) / (box.high - box.low) - 1.0
            if bounds is None:
                edge = 1 - th.finfo(th.float32).eps
                squashed = actor.action_dist.proba_distribution(mean, log_std, **kwargs)
                density = squashed.log_prob(scaled.clamp(-edge, edge))
            else:
                density = squashed_log_prob(mean, log_std, scaled.clamp(-1, 1))
            # Rescaling divides the density by the scale of each dimension.
            return density - th.log(box.half_range).sum()
    return None


def compute_train_stats(
    disc_logits_expert_is_high: th.Tensor,
    labels_expert_is_one: th.Tensor,
    disc_loss: th.Tensor,
) -> Mapping[str, float]:
    """Computes how well a discriminator tells expert from generator.

    Args:
        disc_logits_expert_is_high: Logits, shape (batch,); positive if the expert is more likely.
        labels_expert_is_one: 1 for the expert's samples and 0 for the generator's, shape
            (batch,).
        disc_loss: Mean cross-entropy, a scalar.

    Returns:
        Loss, accuracies (`nan` without samples of a kind), entropy in nats, and the expert's
        share in the labels and in the predictions (`nan` without samples).
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
                disc_loss.mean(),
                correct.sum(),
                (correct * is_expert).sum(),
                entropy.mean(),
                is_expert.sum(),
                says_expert.sum(),
            ]
        ).tolist()
    loss, right, right_expert, mean_entropy, n_expert, n_says_expert = numbers
    n_generated = len(logits) - n_expert
    n = len(logits) or float("nan")
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


_INTERVAL = 20


class Summaries:
    """Writes summaries to `summary/` in a folder.

    Args:
        log_dir: Parent folder, created if missing.
        net: Network whose graph is written with the first summary; `None` for no graph.
    """

    def __init__(self, log_dir: AnyPath, net: RewardNet | None) -> None:
        import_extra("tensorboard", "tensorboard", "init_tensorboard=True")
        from torch.utils.tensorboard import SummaryWriter

        folder = Path(os.fsdecode(log_dir)) / "summary"
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = SummaryWriter(str(folder))
        self._net = net

    def write(self, step: int, logits: th.Tensor, batch: Mapping[str, Array]) -> None:
        """Writes the logits of every 20th step.

        Args:
            step: Number of the discriminator's update, from 1.
            logits: The discriminator's logits, shape (batch,).
            batch: Transitions under `FIELDS`; the first traces the graph.
        """
        if self._net is not None:
            inputs = self._net.preprocess(*(batch[name][:1] for name in FIELDS))
            self._writer.add_graph(self._net, inputs)
            self._net = None
        if step % _INTERVAL == 0:
            self._writer.add_histogram("disc_logits", logits, step)
            self._writer.flush()


@dataclass(frozen=True)
class Regularization:
    """Settings of the discriminator's regularization; all are off by default.

    Attributes:
        gradient_penalty: Weight of the squared distance of the gradient's norm from 1, between
            samples of both kinds (Gulrajani et al. 2017, "Improved Training of Wasserstein GANs",
            equation 3; Kostrikov et al. 2019, "Discriminator-Actor-Critic", for imitation).
        label_smoothing: Target probability of the wrong label, in [0, 0.5) (Szegedy et al. 2016,
            "Rethinking the Inception Architecture for Computer Vision", §7): the logits of a
            perfect discriminator then lie within ±log((1 - s) / s).

    Raises:
        ValueError: A value is out of range.
    """

    gradient_penalty: float = 0.0
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if not self.gradient_penalty >= 0:
            raise ValueError(f"gradient_penalty must be at least 0, not {self.gradient_penalty}")
        if not 0 <= self.label_smoothing < 0.5:
            raise ValueError(f"label_smoothing must lie in [0, 0.5), not {self.label_smoothing}")


def gradient_penalty(
    net: RewardNet,
    expert: Mapping[str, Array],
    generated: Mapping[str, Array],
    rng: np.random.Generator,
) -> th.Tensor:
    """Penalizes gradient norms other than 1 at random points between expert and generator samples.

    Gradients are by standardized inputs, so that units of observations do not matter. Statistics of
    normalizing layers do not change.

    Args:
        net: Network of the logits.
        expert: Samples of the expert under `FIELDS`.
        generated: As many of the generator.
        rng: Draws the position of each point between its two samples.

    Returns:
        The mean squared distance, a scalar with gradients.
    """
    sides = [net.preprocess(*(batch[name] for name in FIELDS)) for batch in (expert, generated)]
    share = th.as_tensor(rng.random(len(expert["acts"])), dtype=net.dtype, device=net.device)
    along = [share.reshape(-1, *[1] * (side.ndim - 1)) for side in sides[0]]
    points = [theirs + part * (own - theirs)
              for own, theirs, part in zip(*sides, along, strict=True)]  # fmt: skip
    # Whether the episode ended is not a continuous input.
    moved = [point.requires_grad_() for point in points[:3]]
    with evaluating(net):
        logits: th.Tensor = net(*moved, points[3])
    gradients = th.autograd.grad(logits.sum(), moved, create_graph=True, allow_unused=True)
    squares = logits.new_zeros(len(logits))
    for gradient, *pair in zip(gradients, *sides, strict=False):
        if gradient is not None:
            scaled = gradient * th.cat(pair).std(dim=0, correction=0)
            squares = squares + scaled.flatten(1).square().sum(dim=1)
    # The root of 0 has no derivative.
    return ((squares + 1e-12).sqrt() - 1).square().mean()
