"""Ring buffers of arrays and of transitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv

from imitbench.data.observations import assert_not_dictobs
from imitbench.data.types import Transitions

Array = npt.NDArray[Any]


def num_samples(data: Mapping[Any, Array]) -> int:
    """Returns the common length of arrays.

    Args:
        data: At least one array.

    Raises:
        ValueError: There are no arrays, or their lengths differ.
    """
    lengths = {len(array) for array in data.values()}
    if len(lengths) != 1:
        raise ValueError(f"arrays must have one common length, not {sorted(lengths) or 'none'}")
    return lengths.pop()


class Buffer:
    """A ring buffer of named arrays; when it is full, new samples replace the oldest.

    Args:
        capacity: Maximum number of samples.
        sample_shapes: Shape of one sample by name.
        dtypes: Data type by name.

    Raises:
        KeyError: The names of shapes and data types differ.
        ValueError: `capacity` is not positive.
    """

    def __init__(
        self,
        capacity: int,
        sample_shapes: Mapping[str, tuple[int, ...]],
        dtypes: Mapping[str, npt.DTypeLike],
    ) -> None:
        if sample_shapes.keys() != dtypes.keys():
            raise KeyError("sample_shapes and dtypes have different keys")
        if capacity <= 0:
            raise ValueError(f"capacity must be positive, not {capacity}")
        self.capacity = capacity
        self.sample_shapes = {name: tuple(shape) for name, shape in sample_shapes.items()}
        self._arrays: dict[str, Array] = {
            name: np.zeros((capacity, *shape), dtype=dtypes[name])
            for name, shape in self.sample_shapes.items()
        }
        self._stored = 0
        self._next = 0

    @classmethod
    def from_data(
        cls, data: Mapping[str, Array], capacity: int | None = None, truncate_ok: bool = False
    ) -> Buffer:
        """Creates a buffer that contains `data`.

        Args:
            data: Arrays of one length.
            capacity: Maximum number of samples; `None` for the length of `data`.
            truncate_ok: Whether to keep only the last `capacity` samples if there are more,
                instead of raising an error.

        Raises:
            ValueError: `data` is empty, its lengths differ, or it exceeds the capacity.
        """
        length = num_samples(data)
        if length == 0:
            raise ValueError("data is empty")
        shapes = {name: array.shape[1:] for name, array in data.items()}
        dtypes = {name: array.dtype for name, array in data.items()}
        buffer = cls(length if capacity is None else capacity, shapes, dtypes)
        buffer.store(data, truncate_ok=truncate_ok)
        return buffer

    def store(self, data: Mapping[str, Array], truncate_ok: bool = False) -> None:
        """Adds samples; in a full buffer, they replace the oldest.

        Args:
            data: Arrays of shape (n_samples, *sample_shape) under the buffer's names.
            truncate_ok: Whether to keep only the last `capacity` samples if there are more,
                instead of raising an error.

        Raises:
            ValueError: Names or shapes differ from the buffer's, `data` is empty, or it exceeds
                the capacity.
        """
        if data.keys() != self.sample_shapes.keys():
            raise ValueError(f"data has keys {sorted(data)}, not {sorted(self.sample_shapes)}")
        length = num_samples(data)
        if length == 0:
            raise ValueError("data is empty")
        for name, array in data.items():
            if array.shape[1:] != self.sample_shapes[name]:
                raise ValueError(
                    f"data['{name}'] has samples of shape {array.shape[1:]}, "
                    f"not {self.sample_shapes[name]}"
                )
        if length > self.capacity:
            if not truncate_ok:
                raise ValueError(f"data has {length} samples, more than capacity {self.capacity}")
            data = {name: array[-self.capacity :] for name, array in data.items()}
            length = self.capacity
        before_end = min(length, self.capacity - self._next)
        for name, array in data.items():
            own = self._arrays[name]
            own[self._next : self._next + before_end] = array[:before_end]
            own[: length - before_end] = array[before_end:]
        self._next = (self._next + length) % self.capacity
        self._stored = min(self._stored + length, self.capacity)

    def sample(self, n_samples: int, rng: np.random.Generator | None = None) -> dict[str, Array]:
        """Draws samples uniformly, with replacement.

        Args:
            n_samples: Number of samples.
            rng: Random generator; `None` for NumPy's global one.

        Returns:
            Arrays of shape (n_samples, *sample_shape).

        Raises:
            ValueError: The buffer is empty.
        """
        if self._stored == 0:
            raise ValueError("buffer is empty: store samples first")
        if rng is None:
            index = np.random.randint(self._stored, size=n_samples)  # noqa: NPY002
        else:
            index = rng.integers(self._stored, size=n_samples)
        return {name: array[index] for name, array in self._arrays.items()}

    def size(self) -> int:
        """Returns the number of stored samples."""
        return self._stored

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that later samples depend on."""
        arrays = {name: array[: self._stored].copy() for name, array in self._arrays.items()}
        return {"arrays": arrays, "next": self._next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict` of a buffer with the same capacity and shapes."""
        self._stored = self._next = 0
        if num_samples(state["arrays"]):
            self.store(state["arrays"])
        self._next = state["next"]


class Reservoir(Buffer):
    """A buffer that holds a uniform sample of all samples that were ever added to it.

    Args: as `Buffer`.

    Source: Vitter 1985, "Random Sampling with a Reservoir", algorithm R.
    """

    _seen = 0

    def add(self, data: Mapping[str, Array], rng: np.random.Generator) -> None:
        """Adds samples; in a full buffer, each replaces a random one, or none.

        Args:
            data: Arrays of shape (n_samples, *sample_shape) under the buffer's names.
            rng: Draws which samples are replaced.

        Raises:
            ValueError: Names or shapes differ from the buffer's, or `data` is empty.
        """
        length = num_samples(data)
        free = min(length, self.capacity - self._stored)
        if free:
            self.store({name: array[:free] for name, array in data.items()})
        indices = rng.integers(0, self._seen + 1 + np.arange(free, length))
        taken = indices < self.capacity
        for name, array in self._arrays.items():
            array[indices[taken]] = data[name][free:][taken]  # of equal indices the last one counts
        self._seen += length

    def state_dict(self) -> dict[str, Any]:
        """See `Buffer.state_dict`."""
        return {**super().state_dict(), "seen": self._seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Buffer.load_state_dict`."""
        super().load_state_dict(state)
        self._seen = state["seen"]


class ReplayBuffer:
    """A ring buffer of transitions.

    Args:
        capacity: Maximum number of transitions.
        venv: Environment whose spaces define shapes and data types, unless these are given.
        obs_shape: Shape of an observation.
        act_shape: Shape of an action.
        obs_dtype: Data type of observations.
        act_dtype: Data type of actions.

    Raises:
        ValueError: Neither `venv` nor all shapes and data types are given, or both are.
    """

    def __init__(
        self,
        capacity: int,
        venv: VecEnv | None = None,
        *,
        obs_shape: tuple[int, ...] | None = None,
        act_shape: tuple[int, ...] | None = None,
        obs_dtype: npt.DTypeLike | None = None,
        act_dtype: npt.DTypeLike | None = None,
    ) -> None:
        given = (obs_shape, act_shape, obs_dtype, act_dtype)
        if venv is not None:
            if any(value is not None for value in given):
                raise ValueError("give venv, or shapes and data types, not both")
            obs_shape, act_shape = venv.observation_space.shape, venv.action_space.shape
            obs_dtype, act_dtype = venv.observation_space.dtype, venv.action_space.dtype
        if obs_shape is None or act_shape is None or obs_dtype is None or act_dtype is None:
            raise ValueError(
                "give venv with array spaces, or all of obs_shape, act_shape, obs_dtype, act_dtype"
            )
        self.capacity = capacity
        self._buffer = Buffer(
            capacity,
            {"obs": obs_shape, "acts": act_shape, "next_obs": obs_shape, "dones": (), "infos": ()},
            {
                "obs": obs_dtype,
                "acts": act_dtype,
                "next_obs": obs_dtype,
                "dones": np.bool_,
                "infos": np.object_,
            },
        )

    @classmethod
    def from_data(
        cls, transitions: Transitions, capacity: int | None = None, truncate_ok: bool = False
    ) -> ReplayBuffer:
        """Creates a buffer that contains `transitions`.

        Args:
            transitions: Transitions with array observations.
            capacity: Maximum number of transitions; `None` for their number.
            truncate_ok: Whether to keep only the last `capacity` if there are more, instead of
                raising an error.

        Raises:
            ValueError: There are none, or more than the capacity.
        """
        obs = assert_not_dictobs(transitions.obs)
        buffer = cls(
            len(transitions) if capacity is None else capacity,
            obs_shape=obs.shape[1:],
            act_shape=transitions.acts.shape[1:],
            obs_dtype=obs.dtype,
            act_dtype=transitions.acts.dtype,
        )
        buffer.store(transitions, truncate_ok=truncate_ok)
        return buffer

    def store(self, transitions: Transitions, truncate_ok: bool = True) -> None:
        """Adds transitions; in a full buffer, they replace the oldest.

        Args:
            transitions: Transitions with array observations.
            truncate_ok: Whether to keep only the last `capacity` if there are more, instead of
                raising an error.

        Raises:
            ValueError: Their shapes differ, there are none, or more than the capacity.
        """
        data = {
            "obs": assert_not_dictobs(transitions.obs),
            "acts": transitions.acts,
            "next_obs": assert_not_dictobs(transitions.next_obs),
            "dones": transitions.dones,
            "infos": transitions.infos,
        }
        self._buffer.store(data, truncate_ok=truncate_ok)

    def sample(self, n_samples: int, rng: np.random.Generator | None = None) -> Transitions:
        """Draws transitions uniformly, with replacement.

        Args:
            n_samples: Number of transitions.
            rng: Random generator; `None` for NumPy's global one.

        Raises:
            ValueError: The buffer is empty.
        """
        return Transitions(**self._buffer.sample(n_samples, rng))

    def size(self) -> int:
        """Returns the number of stored transitions."""
        return self._buffer.size()
