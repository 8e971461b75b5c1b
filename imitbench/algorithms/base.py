"""What all imitation-learning algorithms share: demonstrations, the horizon check, the logger."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import torch as th
from stable_baselines3.common.policies import BasePolicy
from torch.utils import data as th_data

from imitbench.data import rollout, types
from imitbench.util import util
from imitbench.util.logger import HierarchicalLogger, configure

TransitionKind = TypeVar("TransitionKind", bound=types.TransitionsMinimal)
AnyTransitions = (
    Iterable[types.Trajectory] | Iterable[types.TransitionMapping] | types.TransitionsMinimal
)
"""Demonstrations: trajectories, transitions, or an iterable of batches of transitions."""


class HasLogger:
    """Something that logs, perhaps with parts that log to the same logger."""

    _logger: HierarchicalLogger

    @property
    def logger(self) -> HierarchicalLogger:
        """Where this and its parts log."""
        return self._logger

    @logger.setter
    def logger(self, value: HierarchicalLogger) -> None:
        self._logger = value
        self._pass_on_logger(value)

    def _pass_on_logger(self, logger: HierarchicalLogger) -> None:
        """Gives a new logger to the parts."""


class BaseImitationAlgorithm(HasLogger, ABC):
    """Base of all algorithms.

    Args:
        custom_logger: Where to log; a new logger when `None`.
        allow_variable_horizon: Whether episodes of different length are accepted. The end of an
            episode reveals information about the reward, which can decide a comparison.
    """

    def __init__(
        self,
        *,
        custom_logger: HierarchicalLogger | None = None,
        allow_variable_horizon: bool = False,
    ) -> None:
        self._logger = custom_logger or configure()
        self.allow_variable_horizon = allow_variable_horizon
        self._horizon: int | None = None

    def _check_fixed_horizon(self, horizons: Iterable[int]) -> None:
        """Checks that all episodes so far have the same length.

        Args:
            horizons: Lengths of episodes, in steps.

        Raises:
            ValueError: The lengths differ from each other or from earlier ones.
        """
        if self.allow_variable_horizon:
            return
        lengths = set(horizons)
        if self._horizon is not None:
            lengths.add(self._horizon)
        if len(lengths) > 1:
            raise ValueError(
                f"episodes of different length: {sorted(lengths)}. The end of an episode "
                "reveals the reward to the learner; pass allow_variable_horizon=True if intended"
            )
        if lengths:
            self._horizon = lengths.pop()

    def __getstate__(self) -> dict[str, Any]:
        """The state without the logger, which holds open files."""
        state = self.__dict__.copy()
        del state["_logger"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.logger = configure()


class DemonstrationAlgorithm(BaseImitationAlgorithm, Generic[TransitionKind]):
    """Base of algorithms that learn from demonstrations.

    Args:
        demonstrations: Demonstrations; `None` to set them later.
        custom_logger: Where to log; a new logger when `None`.
        allow_variable_horizon: Whether episodes of different length are accepted.
    """

    def __init__(
        self,
        *,
        demonstrations: AnyTransitions | None,
        custom_logger: HierarchicalLogger | None = None,
        allow_variable_horizon: bool = False,
    ) -> None:
        super().__init__(custom_logger=custom_logger, allow_variable_horizon=allow_variable_horizon)
        if demonstrations is not None:
            self.set_demonstrations(demonstrations)

    @abstractmethod
    def set_demonstrations(self, demonstrations: AnyTransitions) -> None:
        """Replaces the demonstrations; interactive algorithms do so in each round.

        Args:
            demonstrations: Trajectories, transitions, or an iterable of batches with at least
                `obs` and `acts`.
        """

    @property
    @abstractmethod
    def policy(self) -> BasePolicy:
        """The policy that imitates the demonstrations."""


def split_kinds(
    demonstrations: AnyTransitions,
) -> tuple[
    list[types.Trajectory] | None, types.TransitionsMinimal | Iterable[types.TransitionMapping]
]:
    """Separates trajectories from transitions.

    Args:
        demonstrations: Trajectories, transitions, or an iterable of batches of transitions.

    Returns:
        The trajectories, or `None`; and all transitions or batches, with trajectories flattened.
        Use these in place of the argument: an iterator has lost its first entry to the type check.

    Raises:
        TypeError: Demonstrations of another type.
        ValueError: `demonstrations` is empty.
    """
    if isinstance(demonstrations, types.TransitionsMinimal):
        if len(demonstrations) == 0:
            raise ValueError("demonstrations hold no transitions")
        return None, demonstrations
    if not isinstance(demonstrations, Iterable):
        raise TypeError(
            "demonstrations must be trajectories, transitions or batches of transitions, "
            f"not {type(demonstrations).__name__}"
        )
    try:
        first, rest = util.get_first_iter_element(demonstrations)
    except ValueError:
        raise ValueError("demonstrations are empty") from None
    if isinstance(first, types.Trajectory):
        trajectories = list(cast(Iterable[types.Trajectory], rest))
        return trajectories, rollout.flatten_trajectories(trajectories)
    if isinstance(first, Mapping):
        return None, cast(Iterable[types.TransitionMapping], rest)
    raise TypeError(
        "demonstrations must hold trajectories or batches of transitions, "
        f"not {type(first).__name__}"
    )


class _CheckedBatches:
    """An iterable of batches that checks the size of each one."""

    def __init__(self, batches: Iterable[types.TransitionMapping], batch_size: int) -> None:
        self._batches = batches
        self._batch_size = batch_size

    def __iter__(self) -> Iterator[types.TransitionMapping]:
        for batch in self._batches:
            for key in ("obs", "acts"):
                if key not in batch:
                    raise ValueError(f"demonstrations: a batch has no '{key}'")
                values: Any = batch[key]
                size = len(next(iter(values.values())) if isinstance(values, Mapping) else values)
                if size != self._batch_size:
                    raise ValueError(
                        f"demonstrations: a batch has {size} entries in '{key}', "
                        f"but batch_size is {self._batch_size}"
                    )
            yield batch


def make_data_loader(
    transitions: AnyTransitions,
    batch_size: int,
    data_loader_kwargs: Mapping[str, Any] | None = None,
) -> Iterable[types.TransitionMapping]:
    """Makes batches of demonstrations, shuffled again in each pass.

    Args:
        transitions: Trajectories, transitions, or an iterable of batches.
        batch_size: Transitions in each batch; an incomplete last batch is dropped.
        data_loader_kwargs: Arguments of `torch.utils.data.DataLoader`.

    Returns:
        An iterable of batches; each iteration is one pass.

    Raises:
        ValueError: `batch_size` is not positive or exceeds the number of transitions, or a given
            batch has another size.
        TypeError: Demonstrations of another type.
    """
    check_batch_size(batch_size)
    _, flat = split_kinds(transitions)
    if not isinstance(flat, types.TransitionsMinimal):
        return _CheckedBatches(flat, batch_size)
    check_enough(flat, batch_size)
    options: dict[str, Any] = {"shuffle": True, "drop_last": True, **(data_loader_kwargs or {})}
    if options.keys() & {"sampler", "batch_sampler", "collate_fn"}:
        options = {"collate_fn": types.transitions_collate_fn, **options}
        loader = th_data.DataLoader(flat, batch_size=batch_size, **options)
    else:
        loader = _whole_batch_loader(flat, batch_size, **options)
    return cast(Iterable[types.TransitionMapping], loader)


def _whole_batch_loader(
    transitions: types.TransitionsMinimal,
    batch_size: int,
    *,
    shuffle: bool,
    drop_last: bool,
    generator: th.Generator | None = None,
    **options: Any,
) -> th_data.DataLoader[Any]:
    """The batches of a default `DataLoader`, many times faster: one indexing call per batch."""
    order: th_data.Sampler[int] = (
        th_data.RandomSampler(transitions, generator=generator)
        if shuffle
        else th_data.SequentialSampler(transitions)
    )
    return th_data.DataLoader(
        transitions,
        batch_size=None,
        sampler=th_data.BatchSampler(order, batch_size, drop_last),
        collate_fn=_batch_as_mapping,
        generator=generator,
        **options,
    )


def _batch_as_mapping(batch: Any) -> Mapping[str, Any]:
    """The result of `types.transitions_collate_fn`, from a whole batch."""
    return {
        name: list(values)
        if name == "infos"
        else values
        if isinstance(values, types.DictObs)
        else util.safe_to_tensor(values)
        for name, values in types.dataclass_quick_asdict(batch).items()
    }


def check_batch_size(batch_size: int, name: str = "batch_size") -> None:
    """Raises a `ValueError` unless `batch_size`, the argument called `name`, is positive."""
    if batch_size <= 0:
        raise ValueError(f"{name} must be positive, not {batch_size}")


def check_enough(transitions: Sequence[Any], batch_size: int) -> None:
    """Raises a `ValueError` if there are fewer transitions than `batch_size`."""
    if len(transitions) < batch_size:
        raise ValueError(
            f"demonstrations hold {len(transitions)} transitions, fewer than batch_size "
            f"{batch_size}"
        )
