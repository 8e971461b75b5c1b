"""Updates of proximal policy optimization for several seeds at once.

The formulas, the order of samples and the statistics of normalizers are those of
`imitbench.rl.ppo_update`, up to rounding. What a single update computes for each minibatch from the
samples alone is computed here for all minibatches of a pass together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import torch as th

from imitbench.rl.actor_critic import Parameters
from imitbench.rl.ppo_update import PPOUpdater, Samples, UpdateSettings, is_of_actor
from imitbench.rl.stacked_actor_critic import StackedActorCritic, make_stacked_head
from imitbench.util.adam import StackedAdam
from imitbench.util.networks import BaseNorm
from imitbench.util.torch_startup import one_thread


class PackedUpdater:
    """Updates the policies of several seeds.

    Args:
        updaters: Those of each seed alone; policies have the same architecture, and normalize
            observations by `RunningNorm` if at all.
        device: Where to compute.
    """

    def __init__(self, updaters: Sequence[PPOUpdater], device: str | th.device = "cpu") -> None:
        self.updaters = list(updaters)
        self._policies = [updater.numpy_policy for updater in updaters]
        architecture, vector = self._policies[0].network.architecture, self._policies[0].vector
        self._device = th.device(device)
        self._network = StackedActorCritic(architecture, len(updaters), device, vector.dtype)
        self._head = make_stacked_head(self._network)
        self._adam = StackedAdam(
            [updater.adam for updater in updaters],
            self._network.parameters,
            self._network.gradient,
        )
        normalizers = [policy.normalizer for policy in self._policies]
        self._norm = None if normalizers[0] is None else _StackedNorm(normalizers, device)
        of_critic = Parameters(architecture, np.ones(architecture.size, dtype=np.float32))
        for name, weights in of_critic.named.items():
            if is_of_actor(name):
                weights[...] = 0.0
        self._of_critic = th.from_numpy(of_critic.vector).to(self._network.parameters)

    def update(
        self,
        samples: Sequence[Samples],
        settings: UpdateSettings,
        generators: Sequence[np.random.RandomState],
    ) -> list[int]:
        """Updates parameters, optimizer states and statistics of all policies.

        Args:
            samples: Samples of each seed's rollout, as many of each.
            settings: Hyper-parameters, without `clip_range_vf`.
            generators: Each draws the order of its seed's samples, one permutation per epoch.

        Returns:
            Number of passes over the samples of each seed, including an incomplete one.

        Raises:
            ValueError: The gradient of a seed was not finite; all policies are unchanged.
        """
        self._load()
        stacked = {
            field.name: th.from_numpy(np.stack([getattr(own, field.name) for own in samples])).to(
                self._device
            )
            for field in fields(Samples)
        }
        count = len(samples[0])
        rows = count * np.arange(len(samples))[:, None]
        orders = np.zeros((len(samples), count), dtype=np.int64)
        epochs = [0] * len(samples)
        with one_thread():
            for _ in range(settings.n_epochs):
                if not self._active:
                    break
                for seed in self._active:
                    epochs[seed] += 1
                    orders[seed] = generators[seed].permutation(count)
                order = th.from_numpy((rows + orders).ravel()).to(self._device)
                drawn = {
                    name: each.flatten(0, 1).index_select(0, order).reshape(each.shape)
                    for name, each in stacked.items()
                }
                self._run(drawn, settings)
        self._store()
        return epochs

    def _load(self) -> None:
        self._active = list(range(len(self._policies)))
        for own, policy in zip(self._network.parameters, self._policies, strict=True):
            policy.load()
            own.copy_(policy.vector)
        self._adam.load([policy.policy.optimizer for policy in self._policies])
        if self._norm is not None:
            self._norm.load()

    def _store(self) -> None:
        if not bool(self._adam.largest.isfinite().all()):
            raise ValueError("the gradient is not finite: training diverged")
        for own, policy in zip(self._network.parameters, self._policies, strict=True):
            policy.vector.copy_(own)
            policy.store()
        self._adam.store([policy.policy.optimizer for policy in self._policies])
        if self._norm is not None:
            self._norm.store()

    def _run(self, drawn: dict[str, th.Tensor], settings: UpdateSettings) -> None:
        """Takes a step for each minibatch of shuffled samples, shape (seeds, n, …)."""
        size, count = settings.batch_size, drawn["obs"].shape[1]
        features, advantages = drawn["obs"], drawn["advantages"]
        if self._norm is not None:
            features = self._norm(features, size)
        if settings.normalize_advantage and size > 1:
            advantages = _normalized(advantages, size)
        for number, start in enumerate(range(0, count, size)):
            part = slice(start, start + size)
            self._step(
                number,
                features[:, part],
                drawn["acts"][:, part],
                drawn["log_probs"][:, part],
                advantages[:, part],
                drawn["returns"][:, part],
                settings,
            )
            if not self._active:
                return

    def _step(
        self,
        number: int,
        features: th.Tensor,
        acts: th.Tensor,
        log_probs: th.Tensor,
        advantages: th.Tensor,
        returns: th.Tensor,
        settings: UpdateSettings,
    ) -> None:
        """Takes a step; without `target_kl`, waits for no operation on the device."""
        network, count = self._network, features.shape[1]
        outputs, values = network.actor.forward(features), network.critic.forward(features)
        log_ratio = self._head.log_prob(outputs, acts).sub_(log_probs)
        ratio = log_ratio.exp()
        if settings.target_kl is not None:
            self._stop_above(1.5 * settings.target_kl, (ratio - 1 - log_ratio).mean(dim=1), number)
            if not self._active:
                return
        gain = advantages * ratio
        bounded = ratio.clamp_(1 - settings.clip_range, 1 + settings.clip_range).mul_(advantages)
        # The gradient is zero where clipping reduced the objective.
        gain *= gain <= bounded
        gain *= -1 / count
        network.actor.backward(self._head.backward(gain, -settings.ent_coef / count))
        by_values = values.sub_(returns.unsqueeze(2)).mul_(2 * settings.vf_coef / count)
        network.critic.backward(by_values)
        if settings.critic_only:
            network.gradient *= self._of_critic
        self._adam.shortened_step(settings.max_grad_norm)

    def _stop_above(self, limit: float, divergences: th.Tensor, number: int) -> None:
        """Ends the update of seeds whose policies have moved too far.

        Args:
            limit: Largest KL divergence.
            divergences: That of each seed, shape (seeds,).
            number: Number of the minibatch in its pass, from 0.
        """
        moved = divergences.tolist()
        for seed in [number for number in self._active if moved[number] > limit]:
            self._active.remove(seed)
            self._adam.stop(seed)
            if self._norm is not None:
                self._norm.stop(seed, number)


def _minibatches(samples: th.Tensor, size: int) -> list[th.Tensor]:
    """Splits samples, shape (seeds, n, …), into minibatches.

    Returns:
        Whole ones, shape (seeds, n // size, size, …), and a smaller last one, shape
        (seeds, 1, n % size, …), without those that do not exist.
    """
    count = samples.shape[1] // size
    whole, rest = samples[:, : count * size], samples[:, count * size :]
    parts = [whole.reshape(len(samples), count, size, *samples.shape[2:])] if count else []
    return [*parts, rest.unsqueeze(1)] if rest.shape[1] else parts


def _joined(parts: Sequence[th.Tensor]) -> th.Tensor:
    """Inverse of `_minibatches`."""
    return th.cat([part.flatten(1, 2) for part in parts], dim=1)


def _normalized(advantages: th.Tensor, size: int) -> th.Tensor:
    """Normalizes advantages to mean 0 and deviation 1 in each minibatch with several samples."""
    return _joined(
        [
            (part - part.mean(dim=2, keepdim=True)) / (part.std(dim=2, keepdim=True) + 1e-8)
            if part.shape[2] > 1
            else part
            for part in _minibatches(advantages, size)
        ]
    )


class _StackedNorm:
    """The `RunningNorm` of several seeds, for all minibatches of a pass at once."""

    def __init__(self, members: Sequence[BaseNorm | None], device: str | th.device) -> None:
        self._members = [member for member in members if member is not None]
        self._device = th.device(device)
        self._eps = self._members[0].eps

    def load(self) -> None:
        """Reads the statistics of all members."""
        self._fixed = self._members[0].fixed
        self._mean, self._var, self._count = (
            th.stack([getattr(member, name).double() for member in self._members])
            .reshape(len(self._members), 1, -1)
            .to(self._device)
            for name in ("running_mean", "running_var", "count")
        )
        self._stopped: dict[int, tuple[th.Tensor, ...]] = {}

    def stop(self, seed: int, number: int) -> None:
        """Keeps a seed's statistics as they are after a minibatch of the latest pass.

        Args:
            seed: Number of the seed.
            number: Number of the minibatch, from 0.
        """
        if not self._fixed:
            means, variances, totals = self._trail
            self._stopped[seed] = means[seed, number], variances[seed, number], totals[seed, number]

    def store(self) -> None:
        """Writes the statistics back."""
        if self._fixed:
            return
        for seed, member in enumerate(self._members):
            latest = self._mean[seed, 0], self._var[seed, 0], self._count[seed, 0]
            mean, var, count = self._stopped.get(seed, latest)
            member.running_mean.copy_(mean)
            member.running_var.copy_(var)
            member.count.copy_(count[0])

    def __call__(self, samples: th.Tensor, size: int) -> th.Tensor:
        """Adds minibatches to the statistics one by one, each before it is normalized.

        Args:
            samples: Shuffled samples, shape (seeds, n, features).
            size: Samples in each minibatch.
        """
        parts = _minibatches(samples, size)
        if self._fixed:
            numbers = [part.shape[1] for part in parts]
            means, variances = (
                moment.expand(-1, sum(numbers), -1) for moment in (self._mean, self._var)
            )
        else:
            means, variances = self._follow(parts)
        done, normalized = 0, []
        for part in parts:
            own = slice(done, done + part.shape[1])
            mean = means[:, own].to(samples.dtype).unsqueeze(2)
            scale = (variances[:, own].to(samples.dtype) + self._eps).rsqrt().unsqueeze(2)
            normalized.append((part - mean) * scale)
            done = own.stop
        return _joined(normalized)

    def _follow(self, parts: Sequence[th.Tensor]) -> tuple[th.Tensor, th.Tensor]:
        """Returns mean and variance after each minibatch, shape (seeds, minibatches, features)."""
        averages = [part.mean(dim=2) for part in parts]
        spreads = [
            (part - average.unsqueeze(2)).square().mean(dim=2)
            for part, average in zip(parts, averages, strict=True)
        ]
        sizes = [part.shape[2] for part in parts for _ in range(part.shape[1])]
        weights = th.tensor(sizes, dtype=th.float64, device=self._device)[:, None]
        # Moments about the mean before, of all samples so far.
        apart = th.cat(averages, dim=1) - self._mean
        totals = self._count + weights.cumsum(dim=0)
        moved = (weights * apart).cumsum(dim=1) / totals
        squares = (weights * (th.cat(spreads, dim=1) + apart.square())).cumsum(dim=1)
        variances = (self._count * self._var + squares) / totals - moved.square()
        means = self._mean + moved
        self._trail = means, variances, totals
        self._mean, self._var, self._count = means[:, -1:], variances[:, -1:], totals[:, -1:]
        return means, variances
