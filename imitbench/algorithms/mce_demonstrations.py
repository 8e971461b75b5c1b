"""How often an expert visits each state, from whatever shows it."""

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
    """Visits of each state.

    Args:
        demonstrations: Trajectories, transitions, an iterable of batches of transitions, or
            visits, shape (states,).
        model: The environment.
        discount: Discount factor.

    Returns:
        Expected discounted number of visits in an episode, shape (states,).

    Raises:
        ValueError: They do not fit the environment or the discount.
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
            "demonstrations: transitions do not tell their step, which a discount needs; give "
            "trajectories or visits, or discount=1"
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
    lengths = {len(trajectory) for trajectory in trajectories}
    if lengths != {model.horizon}:
        wrong = min(lengths - {model.horizon})
        raise ValueError(
            f"demonstrations: a trajectory has {wrong} steps, but the environment's horizon is "
            f"{model.horizon}; give whole episodes"
        )
    # The last observation is where the episode ended: nothing is done there, nor rewarded.
    observations = np.concatenate([_as_array(each.obs)[:-1] for each in trajectories])
    weights = np.tile(discount ** np.arange(model.horizon, dtype=np.float64), len(trajectories))
    states = decode(observations, "demonstrations")
    visits: Floats = np.bincount(states, weights, minlength=model.states) / len(trajectories)
    return visits


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
            "demonstrations: observations of a tabular environment are no dictionaries"
        )
    if hasattr(observations, "detach"):
        return cast(npt.NDArray[Any], observations.detach().cpu().numpy())
    return np.asarray(observations)
