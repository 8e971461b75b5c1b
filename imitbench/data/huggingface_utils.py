"""Converts trajectories to and from Hugging Face `datasets`, imported only when needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from imitbench.data.arrow_table import check_columns, table_to_trajectories, trajectories_to_table
from imitbench.data.infos import encode_infos
from imitbench.data.observations import assert_not_dictobs
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew, infos_of
from imitbench.util.extras import import_extra

if TYPE_CHECKING:
    import datasets


class TrajectoryDatasetSequence(Sequence[Trajectory]):
    """A data set as a sequence of trajectories, which are read on demand.

    An integer index gives a `TrajectoryWithRew` if the data set has rewards, else a
    `Trajectory`; a slice gives a sequence of this class. Infos in JSON are decoded; other text
    is kept under the key `__opaque__`.

    Args:
        dataset: Columns `obs`, `acts`, `terminal`, and optionally `infos` and `rews`.

    Raises:
        ValueError: A column is missing.
    """

    def __init__(self, dataset: datasets.Dataset) -> None:
        check_columns(dataset.data.schema, where="the data set")
        self._dataset = dataset
        self._rows = dataset.with_format("arrow")

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self._dataset)

    @overload
    def __getitem__(self, idx: int) -> Trajectory: ...

    @overload
    def __getitem__(self, idx: slice) -> TrajectoryDatasetSequence: ...

    def __getitem__(self, idx: int | slice) -> Trajectory | TrajectoryDatasetSequence:
        if isinstance(idx, slice):
            rows = range(*idx.indices(len(self)))
            return TrajectoryDatasetSequence(self._dataset.select(rows))
        row = range(len(self))[idx]
        table = self._rows[row : row + 1]
        return table_to_trajectories(table, where="the data set", first_row=row)[0]

    @property
    def dataset(self) -> datasets.Dataset:
        """The underlying data set."""
        return self._dataset


def trajectories_to_dict(trajectories: Sequence[Trajectory]) -> dict[str, Sequence[Any]]:
    """Converts trajectories to columns.

    Args:
        trajectories: All with rewards or all without; array observations.

    Returns:
        `obs`, `acts` and, if there are rewards, `rews`: lists with an array per trajectory.
        `infos`: lists of JSON texts, `{}` where there were none. `terminal`: booleans.

    Raises:
        ValueError: Only some trajectories have rewards, observations are dictionaries, or an
            info cannot be written as JSON.
    """
    columns: dict[str, Sequence[Any]] = {
        "obs": [assert_not_dictobs(t.obs) for t in trajectories],
        "acts": [t.acts for t in trajectories],
        "infos": [encode_infos(infos_of(t)) for t in trajectories],
        "terminal": [t.terminal for t in trajectories],
    }
    rews = [t.rews for t in trajectories if isinstance(t, TrajectoryWithRew)]
    if rews and len(rews) != len(trajectories):
        raise ValueError("some trajectories have rewards and some have none: convert one kind")
    if rews:
        columns["rews"] = rews
    return columns


def trajectories_to_dataset(
    trajectories: Sequence[Trajectory], info: datasets.DatasetInfo | None = None
) -> datasets.Dataset:
    """Creates a data set with one row per trajectory.

    Args:
        trajectories: At least one; all with rewards or all without. The data set of a
            `TrajectoryDatasetSequence` is returned unchanged.
        info: Metadata such as description and license.

    Raises:
        ValueError: The trajectories do not fit into one table.
    """
    if isinstance(trajectories, TrajectoryDatasetSequence):
        return trajectories.dataset
    package = import_extra("datasets", "datasets", "writing a Hugging Face data set")
    table = package.table.InMemoryTable(trajectories_to_table(trajectories))
    made: datasets.Dataset = package.Dataset(table, info=info)
    return made
