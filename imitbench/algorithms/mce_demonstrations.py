"""State visits of an expert, from demonstrations in any form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from imitbench.data import types
from imitbench.data.tabular import ObservationDecoder, TabularModel
from imitbench.util import util

Floats = npt.NDArray[np.float64]


_TOLERANCE = 1e-2


def demonstrated_occupancies(demonstrations: Any, model: TabularModel, discount: float) -> Floats:
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
    if not isinstance(demonstrations, types.TransitionsMinimal):
        if not isinstance(demonstrations, Iterable):
            raise TypeError(
                "demonstrations must be trajectories, transitions, batches of transitions or an "
                f"array of visits, not {type(demonstrations).__name__}"
            )
        try:
            first, demonstrations = util.get_first_iter_element(demonstrations)
        except ValueError:
            raise ValueError("demonstrations are empty") from None
        if isinstance(first, types.Trajectory):
            return _of_trajectories(list(demonstrations), model, discount, decode)
        if not isinstance(first, Mapping):
            raise TypeError(
                "demonstrations must hold trajectories or batches of transitions, not "
                f"{type(first).__name__}"
            )
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
    if isinstance(demonstrations, types.TransitionsMinimal):
        batches: list[Any] = [demonstrations.obs]
    else:
        batches = [
            batch["obs"] for batch in cast(Iterable[types.TransitionMapping], demonstrations)
        ]
    counts = np.zeros(model.states)
    for observations in batches:
        states = decode(_as_array(observations), "demonstrations")
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
