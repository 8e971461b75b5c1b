"""Maximum causal entropy inverse reinforcement learning (MCE IRL) on tabular environments.

Source: Ziebart 2010, "Modeling Purposeful Adaptive Behavior with the Principle of Maximum Causal
Entropy", chapters 9 and 10.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.algorithms import base
from imitbench.algorithms.mce_planning import (
    SoftPlanner,
    check_discount,
    mce_occupancy_measures,
    mce_partition_fh,
)
from imitbench.algorithms.mce_rewards import (
    encode_states,
    make_state_rewards,
    rewards_of_states,
    squeeze_r,
)
from imitbench.data import types
from imitbench.data.tabular import ObservationDecoder, TabularModel, state_space_of
from imitbench.policies.tabular import TabularPolicy
from imitbench.rewards.reward_nets import RewardNet
from imitbench.rewards.tabular import TabularRewardNet
from imitbench.util.adam import direct_step, load_optimizer_state, with_fused
from imitbench.util.library_patches import leave_compiler_unloaded
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.networks import evaluating, training

Floats = npt.NDArray[np.float64]
_TOLERANCE = 1e-2  # relative, of the sum of given visits
_OPTIMIZER = {"lr": 1e-2}

__all__ = [
    "MCEIRL",
    "TabularPolicy",
    "TabularRewardNet",
    "mce_occupancy_measures",
    "mce_partition_fh",
    "squeeze_r",
]

MCEDemonstrations = npt.NDArray[Any] | base.AnyTransitions


class MCEIRL(base.DemonstrationAlgorithm[types.TransitionsMinimal]):
    """Learns a reward of states whose softly optimal policy visits states as the expert does.

    The reward reads observations; the policy acts on states. Each iteration plans for the current
    reward, compares state visits, and takes an optimizer step along the gradient of the
    demonstrations' causal log-likelihood: the difference of visits.

    Args:
        demonstrations: Trajectories, transitions, an iterable of batches of transitions, or the
            expert's (discounted) visits of states, shape (states,). `None` when they are set
            later. Observations are states, vectors with a one for the state, or those of the
            environment.
        env: A tabular environment, such as `seals.base_envs.TabularModelPOMDP`.
        reward_net: Network of the state alone; `TabularRewardNet` has one parameter per state.
        rng: Draws the policy's actions.
        optimizer_cls: Class of the optimizer.
        optimizer_kwargs: Keyword arguments of the optimizer; a learning rate of 0.01 by default.
        discount: Discount factor, in [0, 1]. Unless it is 1, demonstrations must be trajectories or
            visits, since transitions have no time step.
        linf_eps: Training ends when the visits of each state differ by at most this.
        grad_l2_eps: Training ends when the L2 norm of the gradient is at most this.
        log_interval: Iterations between log records; `None` for none.
        custom_logger: Where to log; a new logger when `None`.

    Attributes:
        env: The tabular environment.
        reward_net: The network, trained in place.
        demo_state_om: Visits of each state by the expert, shape (states,), float64; they add up
            to the discounted number of steps. `None` before there are demonstrations.

    Raises:
        ValueError: `env` is not tabular or has no finite horizon, `reward_net` uses more than the
            state, `discount` is out of range, `log_interval` is not positive, or demonstrations do
            not fit.
    """

    def __init__(
        self,
        demonstrations: MCEDemonstrations | None,
        env: Any,
        reward_net: RewardNet,
        rng: np.random.Generator,
        optimizer_cls: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: Mapping[str, Any] | None = None,
        discount: float = 1.0,
        linf_eps: float = 1e-3,
        grad_l2_eps: float = 1e-4,
        log_interval: int | None = 100,
        *,
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        check_discount(discount)
        if log_interval is not None and log_interval < 1:
            raise ValueError(f"log_interval must be positive or None, not {log_interval}")
        self.env = env
        self.discount = discount
        self.reward_net = reward_net
        self.rng = rng
        self.linf_eps = linf_eps
        self.grad_l2_eps = grad_l2_eps
        self.log_interval = log_interval
        self.demo_state_om: Floats | None = None
        self._model = TabularModel.of(env)
        self._states = encode_states(reward_net, self._model)
        self._planner = self._make_planner()
        leave_compiler_unloaded()
        self.optimizer = optimizer_cls(
            reward_net.parameters(), **with_fused(optimizer_cls, optimizer_kwargs or _OPTIMIZER)
        )
        shape = (self._model.horizon, self._model.states, self._model.actions)
        self._policy = TabularPolicy(
            state_space_of(env), env.action_space, np.full(shape, 1 / shape[-1]), rng
        )
        # Visits are not `AnyTransitions`, but the base class only passes them on.
        given = cast("base.AnyTransitions | None", demonstrations)
        super().__init__(demonstrations=given, custom_logger=custom_logger)

    def _make_planner(self) -> SoftPlanner:
        return SoftPlanner(self._model, self.discount)

    @property
    def policy(self) -> TabularPolicy:
        """The softly optimal policy for the learned reward; uniform before training."""
        return self._policy

    def set_demonstrations(self, demonstrations: MCEDemonstrations) -> None:
        """Replaces the demonstrations.

        Args:
            demonstrations: As in the constructor.

        Raises:
            ValueError: Demonstrations are empty; an observation is not a state of the environment;
                a trajectory is longer than the horizon, or shorter without a terminal state;
                transitions are given though there is a discount or a terminal state; or visits do
                not add up to the discounted number of steps.
            TypeError: Demonstrations of another type.
        """
        self.demo_state_om = demonstrated_occupancies(demonstrations, self._model, self.discount)

    def train(self, max_iter: int = 1000) -> Floats:
        """Trains until visits match, the gradient vanishes, or `max_iter` is reached.

        Args:
            max_iter: Maximum number of iterations.

        Returns:
            Visits of each state by the policy for the final reward, shape (states,), float64.

        Raises:
            ValueError: There are no demonstrations, or a reward is not finite.
        """
        if self.demo_state_om is None:
            raise ValueError("no demonstrations; call set_demonstrations() first")
        if max_iter < 0:
            raise ValueError(f"max_iter must not be negative, but is {max_iter}")
        with training(self.reward_net):
            visits = self._iterate(self.demo_state_om, max_iter)
        if visits is None:  # the last step changed the reward
            visits = self._visits(self.rewards())
        self._policy.set_pi(self._planner.policy.transpose(0, 2, 1))
        return visits

    def rewards(self) -> Floats:
        """The learned reward of each state, shape (states,), float64."""
        with th.no_grad(), evaluating(self.reward_net):
            rewards = rewards_of_states(self.reward_net, self._states).cpu().numpy()
        return rewards.astype(np.float64)

    def _iterate(self, wanted: Floats, max_iter: int) -> Floats | None:
        """Takes steps; returns the visits if training ended before `max_iter`."""
        source = make_state_rewards(self.reward_net, self._states)
        compute, differentiate = source.compute, source.differentiate
        step = None
        for iteration in range(max_iter):
            visits = self._visits(compute())
            difference = visits - wanted
            length = differentiate(difference)
            distance = float(np.abs(difference).max())
            if self.log_interval is not None and iteration % self.log_interval == 0:
                self._log(iteration, distance, length)
            if distance <= self.linf_eps or length <= self.grad_l2_eps:
                return visits
            step = step or direct_step(self.optimizer)  # needs gradients
            step()
        return None

    def _visits(self, rewards: Floats) -> Floats:
        try:
            self._planner.plan(rewards)
        except ValueError as error:
            raise ValueError(f"reward_net: {error}; try a smaller learning rate") from error
        return self._planner.cumulate(self._planner.occupancies())

    def _log(self, iteration: int, distance: float, length: float) -> None:
        weights = [parameter.detach() for parameter in self.reward_net.parameters()]
        self.logger.record("iteration", iteration)
        self.logger.record("linf_delta", distance)
        self.logger.record("weight_norm", float(th.nn.utils.get_total_norm(weights)))
        self.logger.record("grad_norm", length)
        self.logger.dump(iteration)

    def state_dict(self) -> dict[str, Any]:
        """A copy of everything that further training depends on, and of the policy.

        Returns:
            Tensors, arrays, numbers and dictionaries of them.
        """
        state = {
            "reward_net": self.reward_net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": self.rng.bit_generator.state,
            "pi": self._policy.pi,
        }
        return copy.deepcopy(state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned; set the demonstrations separately.

        Raises:
            ValueError: The state is of another environment.
        """
        self._model.check_policy(np.asarray(state["pi"]), "state: pi")
        self.reward_net.load_state_dict(state["reward_net"])
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.rng.bit_generator.state = state["rng"]
        self._policy.set_pi(np.asarray(state["pi"]))


def demonstrated_occupancies(
    demonstrations: MCEDemonstrations, model: TabularModel, discount: float
) -> Floats:
    """Computes the expert's visits of each state.

    Args:
        demonstrations: Trajectories, transitions, an iterable of batches of transitions, or
            visits, shape (states,).
        model: Dynamics of the environment.
        discount: Discount factor, in [0, 1].

    Returns:
        Expected discounted number of visits in an episode, shape (states,). An episode that ends in
        a terminal state counts as staying there until the horizon.

    Raises:
        ValueError: Demonstrations do not fit the environment or the discount.
        TypeError: Demonstrations of another type.
    """
    if isinstance(demonstrations, np.ndarray):
        return _checked_visits(demonstrations, model, discount)
    decode = ObservationDecoder(model.states, model.observations)
    trajectories, given = base.split_kinds(demonstrations)
    if trajectories is not None:
        return _of_trajectories(trajectories, model, discount, decode)
    if discount != 1:
        raise ValueError(
            "demonstrations: transitions have no time step, which a discount needs; give "
            "trajectories or visits, or discount=1"
        )
    if model.terminal.any():
        raise ValueError(
            "demonstrations: transitions do not show which episodes ended early, as they may in "
            "this environment; give trajectories or visits"
        )
    batches = [vars(given)] if isinstance(given, types.TransitionsMinimal) else given
    counts = np.zeros(model.states)
    for batch in batches:
        states = decode(_as_array(batch["obs"]), "demonstrations")
        counts += np.bincount(states, minlength=model.states)
    if not counts.any():
        raise ValueError("demonstrations hold no transitions")
    counts *= model.horizon / counts.sum()
    return counts


def _of_trajectories(
    trajectories: list[types.Trajectory],
    model: TabularModel,
    discount: float,
    decode: ObservationDecoder,
) -> Floats:
    observations = [_as_array(trajectory.obs) for trajectory in trajectories]
    lengths = np.array([len(trajectory) for trajectory in trajectories])
    weights = discount ** np.arange(model.horizon, dtype=np.float64)
    short = np.flatnonzero(lengths < model.horizon)
    if (lengths > model.horizon).any():
        raise _wrong_length(int(lengths.max()), model)
    # No action is taken on the last observation of an episode, so it does not count.
    states = decode(
        np.concatenate([observation[:-1] for observation in observations]), "demonstrations"
    )
    taken: Floats = np.concatenate([weights[:length] for length in lengths])
    visits = np.bincount(states, taken, minlength=model.states).astype(np.float64)
    if len(short):
        # The model stays in a terminal state where an episode ends before the horizon.
        last = decode(np.concatenate([observations[i][-1:] for i in short]), "demonstrations")
        if not model.terminal[last].all():
            raise _wrong_length(int(lengths[short[~model.terminal[last]]].min()), model)
        left = np.array([weights[lengths[i] :].sum() for i in short])
        visits += np.bincount(last, left, minlength=model.states)
    return visits / len(trajectories)


def _wrong_length(steps: int, model: TabularModel) -> ValueError:
    return ValueError(
        f"demonstrations: a trajectory has {steps} steps, but the environment's horizon is "
        f"{model.horizon}; give whole episodes"
    )


def _checked_visits(visits: npt.NDArray[Any], model: TabularModel, discount: float) -> Floats:
    if visits.shape != (model.states,):
        raise ValueError(
            f"demonstrations: visits have shape {visits.shape}; they need ({model.states},)"
        )
    array = visits.astype(np.float64)
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise ValueError("demonstrations: visits must be finite and not negative")
    total = float((discount ** np.arange(model.horizon, dtype=np.float64)).sum())
    if abs(array.sum() - total) > _TOLERANCE * total:
        raise ValueError(
            f"demonstrations: visits add up to {array.sum():.4g}, but {model.horizon} steps with "
            f"discount {discount:g} add up to {total:.4g}"
        )
    return array


def _as_array(observations: Any) -> npt.NDArray[Any]:
    if isinstance(observations, types.DictObs | Mapping):
        raise ValueError(
            "demonstrations: observations of a tabular environment must not be dictionaries"
        )
    if hasattr(observations, "detach"):
        return cast(npt.NDArray[Any], observations.detach().cpu().numpy())
    return np.asarray(observations)
