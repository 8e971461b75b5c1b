"""An update of proximal policy optimization, with the gradient in closed form.

Source: Schulman et al. 2017, "Proximal Policy Optimization Algorithms", equations 7 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.buffers import RolloutBuffer

from imitbench.rl.numpy_policy import NumpyPolicy
from imitbench.util.adam import FlatAdam
from imitbench.util.torch_startup import one_thread

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class UpdateSettings:
    """Settings of an update, named as in Stable-Baselines3; ranges are current values.

    Attributes:
        critic_only: Whether only the critic is trained.
    """

    clip_range: float
    clip_range_vf: float | None
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    target_kl: float | None
    n_epochs: int
    batch_size: int
    critic_only: bool = False


def is_of_actor(name: str) -> bool:
    """Whether a parameter of an actor-critic policy belongs only to the actor, by its name."""
    return name.startswith(("mlp_extractor.policy_net.", "action_net.", "log_std"))


@dataclass
class Samples:
    """Samples of an update; the first axis of every array is the sample.

    Attributes:
        obs: Flat observations, shape (n, features), float32.
        acts: Encoded actions, shape (n, outputs), float32.
        values: Values at the time of the rollout, shape (n,), float32.
        log_probs: Log-probabilities of the actions at that time, shape (n,), float32.
        advantages: Shape (n,), float32.
        returns: Targets of the critic, shape (n,), float32.
    """

    obs: Array
    acts: Array
    values: Array
    log_probs: Array
    advantages: Array
    returns: Array

    @classmethod
    def of_buffer(cls, buffer: RolloutBuffer, numpy_policy: NumpyPolicy) -> Samples:
        """Reads a full buffer, in the order of its indices."""

        def flat(rows: Array) -> Array:
            return rows if buffer.generator_ready else buffer.swap_and_flatten(rows)

        return cls(
            obs=numpy_policy.flatten(flat(buffer.observations)),
            acts=numpy_policy.head.encode(flat(buffer.actions)),
            **{
                name: flat(getattr(buffer, name)).reshape(-1)
                for name in ("values", "log_probs", "advantages", "returns")
            },
        )

    def __len__(self) -> int:
        return len(self.obs)

    def take(self, indices: Array) -> Samples:
        """Returns the samples with the given indices, in their order."""
        return Samples(*(getattr(self, field.name)[indices] for field in fields(self)))


class _Epoch:
    """A pass over shuffled samples, with the terms of each sample's loss for the log.

    `done` is the number of samples used so far.
    """

    def __init__(self, samples: Samples, settings: UpdateSettings) -> None:
        count = len(samples)
        self.samples, self.settings = samples, settings
        self.starts = np.arange(0, count, settings.batch_size)
        self.done = 0
        self.advantages = samples.advantages
        if settings.normalize_advantage:
            self.advantages = _normalized(samples.advantages, settings.batch_size)
        kind = samples.advantages.dtype
        self.log_ratio, self.ratio, self.entropy, self.error = np.empty((4, count), kind)

    def means(self) -> dict[str, Array]:
        """Returns means over each minibatch so far, by name in the log without prefix."""
        seen = slice(self.done)
        starts = self.starts[self.starts < self.done]
        sizes = np.diff(np.append(starts, self.done))
        low, high = 1 - self.settings.clip_range, 1 + self.settings.clip_range
        ratio, advantages = self.ratio[seen], self.advantages[seen]
        terms = {
            "policy_gradient_loss": -np.minimum(
                advantages * ratio, advantages * np.clip(ratio, low, high)
            ),
            "value_loss": self.error[seen] ** 2,
            "entropy_loss": -self.entropy[seen],
            "clip_fraction": np.abs(ratio - 1) > self.settings.clip_range,
            "approx_kl": ratio - 1 - self.log_ratio[seen],
        }
        return {
            name: np.add.reduceat(term, starts, dtype=np.float64) / sizes
            for name, term in terms.items()
        }


def _normalized(advantages: Array, batch_size: int) -> Array:
    """Normalizes advantages to mean 0 and deviation 1 in each minibatch with several samples."""
    whole = len(advantages) // batch_size * batch_size
    if batch_size == 1:
        return advantages
    rows, rest = advantages[:whole].reshape(-1, batch_size), advantages[whole:]
    parts = [rows, rest[None]] if len(rest) > 1 else [rows]
    scaled = [
        (part - part.mean(axis=1, keepdims=True)) / (part.std(axis=1, ddof=1, keepdims=True) + 1e-8)
        for part in parts
    ]
    flat = [part.ravel() for part in scaled]
    return np.concatenate([*flat, rest] if len(rest) == 1 else flat)


@dataclass
class UpdateResult:
    """Result of an update.

    Attributes:
        epochs: Number of passes over the samples, including an incomplete one.
        stopped: Whether the KL divergence exceeded its limit, so that the last pass was stopped.
        log: Values of the log by name, without prefix.
    """

    epochs: int
    stopped: bool
    log: dict[str, float]


class PPOUpdater:
    """Updates a policy with its copy in NumPy.

    Args:
        numpy_policy: Copy of the policy.
    """

    def __init__(self, numpy_policy: NumpyPolicy) -> None:
        self.numpy_policy = numpy_policy
        self.adam = FlatAdam(numpy_policy)

    def update(self, samples: Samples, settings: UpdateSettings) -> UpdateResult:
        """Updates parameters, optimizer state and statistics of the policy.

        The order of samples is drawn from NumPy's global generator, one permutation per epoch, as
        in Stable-Baselines3.

        Args:
            samples: Samples of a rollout.
            settings: Hyper-parameters.

        Raises:
            ValueError: The gradient is not finite; the policy is unchanged.
        """
        numpy_policy, optimizer = self.numpy_policy, self.numpy_policy.policy.optimizer
        numpy_policy.load()
        self.adam.load(optimizer)
        means: list[dict[str, Array]] = []
        stopped = False
        while len(means) < settings.n_epochs and not stopped:
            epoch = _Epoch(samples.take(np.random.permutation(len(samples))), settings)  # noqa: NPY002
            with one_thread():
                stopped = self._run(epoch)
            means.append(epoch.means())
        self.adam.store(optimizer)
        numpy_policy.store()
        log = {name: float(np.mean(np.concatenate([mean[name] for mean in means])))
               for name in means[0]}  # fmt: skip
        last = means[-1]
        log["approx_kl"] = float(np.mean(last["approx_kl"]))
        log["loss"] = float(
            last["policy_gradient_loss"][-1]
            + settings.ent_coef * last["entropy_loss"][-1]
            + settings.vf_coef * last["value_loss"][-1]
        )
        return UpdateResult(len(means), stopped, log)

    def _run(self, epoch: _Epoch) -> bool:
        """Takes a step for each minibatch; returns whether the KL divergence exceeded its limit."""
        settings = epoch.settings
        for start in epoch.starts:
            part = slice(int(start), int(start) + settings.batch_size)
            features = self._differentiate(epoch, part)
            epoch.done = min(part.stop, len(epoch.samples))
            if settings.target_kl is not None:
                divergence = np.mean(epoch.ratio[part] - 1 - epoch.log_ratio[part])
                if divergence > 1.5 * settings.target_kl:
                    return True
            self.numpy_policy.network.backward(features, self._by_output, self._by_values)
            if settings.critic_only:
                for name, gradient in self.numpy_policy.network.gradient.named.items():
                    if is_of_actor(name):
                        gradient[...] = 0.0
            self.adam.shortened_step(settings.max_grad_norm)
        return False

    def _differentiate(self, epoch: _Epoch, part: slice) -> Array:
        """Evaluates a minibatch and computes the gradient of its loss.

        Returns:
            Features of the minibatch.
        """
        settings, samples, numpy_policy = epoch.settings, epoch.samples, self.numpy_policy
        features = numpy_policy.training_features(samples.obs[part])
        outputs, values = numpy_policy.network.forward(features)
        log_prob, entropy = numpy_policy.head.log_prob(outputs, samples.acts[part])
        epoch.entropy[part] = entropy
        log_ratio, ratio, error = epoch.log_ratio[part], epoch.ratio[part], epoch.error[part]
        np.subtract(log_prob, samples.log_probs[part], out=log_ratio)
        np.exp(log_ratio, out=ratio)
        advantages = epoch.advantages[part]
        gain = advantages * ratio
        clipped = np.minimum(np.maximum(ratio, 1 - settings.clip_range), 1 + settings.clip_range)
        clipped *= advantages
        # The gradient is zero where clipping reduced the objective.
        gain *= gain <= clipped
        gain *= -1 / len(gain)
        self._by_output = numpy_policy.head.backward(gain, -settings.ent_coef / len(gain))
        slope = 2 * settings.vf_coef / len(gain)
        if settings.clip_range_vf is None:
            np.subtract(values, samples.returns[part], out=error)
            self._by_values = error * slope
        else:
            limit = settings.clip_range_vf
            change = values - samples.values[part]
            np.add(samples.values[part], np.clip(change, -limit, limit), out=error)
            error -= samples.returns[part]
            self._by_values = error * slope
            self._by_values *= np.abs(change) <= limit
        return features
