import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from imitbench.data.arrow_table import (
    lists_to_arrays,
    nested_lists,
    table_to_trajectories,
    trajectories_to_table,
)
from imitbench.data.observations import DictObs
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew
from imitbench.errors import InputError


def read(column, **kwargs):
    return lists_to_arrays(pa.chunked_array([column]), "obs", where="file", **kwargs)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 2), (0,)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, np.bool_])
def test_arrays_of_any_dimension_survive_the_round_trip(shape, dtype):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 2, (n, *shape)).astype(dtype) for n in (2, 1, 4)]
    column = nested_lists("obs", arrays)
    assert column.to_pylist() == [array.tolist() for array in arrays]
    for array, back in zip(arrays, read(column), strict=True):
        assert back.dtype == dtype
        assert back.shape == array.shape
        assert np.array_equal(back, array)
        assert back.flags.writeable


def test_slices_and_chunks_are_read_at_their_offset():
    arrays = [np.full((n, 2), n) for n in (1, 2, 3, 4)]
    column = nested_lists("obs", arrays)
    chunked = pa.chunked_array([column.slice(1, 1), column.slice(3, 1)])
    back = lists_to_arrays(chunked, "obs", where="file")
    assert [array.tolist() for array in back] == [arrays[1].tolist(), arrays[3].tolist()]


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_list(pa.large_list(pa.float32())),
        pa.list_(pa.list_(pa.float32(), 2)),
    ],
)
def test_other_list_types_are_read(kind):
    column = pa.array([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]], kind)
    assert [array.tolist() for array in read(column)] == column.to_pylist()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[[1.0, 2.0]], [[1.0, 2.0], [3.0]]], "episode 8: .*length 2 and of length 1"),
        ([[[[1.0], [2.0]]], [[[3.0], []]]], "episode 8: .*length 1 and of length 0"),
        ([[1.0], None], "missing entries"),
        ([[1.0], [None]], "missing numbers"),
        ([["a"]], "string, not numbers"),
        ([1.0], "double, not lists"),
    ],
)
def test_columns_that_are_not_arrays_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        read(pa.array(values), first_row=7)


@pytest.mark.parametrize("compact", [False, True])
def test_trajectories_survive_the_round_trip(trajectories, compact):
    made = trajectories(act_shape=(2,), obs_dtype=np.float64)
    assert (
        table_to_trajectories(
            trajectories_to_table(made, compact=compact), where="table", with_infos=False
        )
        == made
    )


def test_compact_tables_hold_float32_where_that_is_exact(trajectories):
    exact = [dataclasses.replace(t, obs=np.round(t.obs.astype(float))) for t in trajectories()]
    inexact = [dataclasses.replace(t, obs=t.obs.astype(float) / 3) for t in exact[:2]] + exact[2:]
    kinds = [
        trajectories_to_table(made, compact=True)["obs"].type.value_type.value_type
        for made in (exact, [dataclasses.replace(t, obs=t.obs + 0.1) for t in inexact])
    ]
    assert kinds == [pa.float32(), pa.float64()]
    huge = [dataclasses.replace(exact[0], obs=np.full((4, 2), 1e300))]
    table = trajectories_to_table(huge, compact=True)
    assert table["obs"].type.value_type.value_type == pa.float64()


def test_tables_without_rewards_have_no_rewards_column(trajectories):
    plain = [Trajectory(t.obs, t.acts, t.infos, t.terminal) for t in trajectories()]
    table = trajectories_to_table(plain)
    assert "rews" not in table.column_names
    assert table_to_trajectories(table, where="table", with_infos=False) == plain


def test_infos_are_decoded_on_reading(trajectories):
    infos = np.array([{"a": 1}, {}, {"b": [2]}])
    made = [dataclasses.replace(trajectories()[0], infos=infos)]
    table = trajectories_to_table(made)
    assert table_to_trajectories(table, where="table") == made
    assert table_to_trajectories(table, where="table", with_infos=False)[0].infos is None


def test_trajectories_that_do_not_fit_into_one_table_are_refused(trajectories):
    first, second, third = trajectories()
    bare = Trajectory(first.obs, first.acts, None, True)
    keyed = dataclasses.replace(second, obs=DictObs({"a": second.obs}))
    wide = dataclasses.replace(second, obs=np.zeros((5, 3)))
    text = dataclasses.replace(second, acts=np.array(["a", "b", "c", "d"]))
    info = dataclasses.replace(third, infos=np.array([{"k": object()}] * 5))
    for bad, message in [
        ([], "no trajectories"),
        ([first, bare], "trajectory 1 and the first differ"),
        ([first, keyed], "trajectory 1 has dictionary observations"),
        ([first, wide], r"trajectory 1: obs have shape \(3,\)"),
        ([first, text], "trajectory 1: acts have data type"),
        ([first, second, info], "trajectory 2: infos of step 0, key 'k'"),
    ]:
        with pytest.raises(InputError, match=message):
            trajectories_to_table(bad)


def test_invalid_rows_are_named():
    table = pa.table(
        {
            "obs": [[[0.0]] * 3, [[0.0]] * 3],
            "acts": [[0, 1], [0]],
            "terminal": [True, True],
            "rews": [[0.0] * 2, [0.0]],
        }
    )
    with pytest.raises(InputError, match=r"file, episode 5: .*3 observations and 1 actions"):
        table_to_trajectories(table, where="file", first_row=4)
    (good,) = table_to_trajectories(table[:1], where="file")
    assert isinstance(good, TrajectoryWithRew)
    assert good.infos is None


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("terminal", [1], "'terminal' holds int64"),
        ("terminal", [None], "episode 0: 'terminal' is missing"),
        ("infos", [[1]], "not lists of text"),
        ("infos", [[None]], "episode 0: infos are missing"),
        ("infos", [["{}", "{}"]], "episode 0: .*2 infos for 1 actions"),
    ],
)
def test_columns_of_the_wrong_type_are_refused(column, values, message):
    columns = {
        "obs": [[[0.0]] * 2],
        "acts": [[0]],
        "terminal": [True],
        "infos": pa.array([["{}"]]),
    }
    kind = pa.list_(pa.string()) if values == [[None]] else None
    kind = pa.bool_() if values == [None] else kind
    with pytest.raises(InputError, match=message):
        table_to_trajectories(pa.table(columns | {column: pa.array(values, kind)}), where="file")
