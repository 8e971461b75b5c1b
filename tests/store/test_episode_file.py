import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.synthetic_runs import plan_runs, write_results

from imitbench.errors import InputError
from imitbench.published.results_folder import read_run
from imitbench.store.collector import collect
from imitbench.store.run_dir import RunDirectory
from imitbench.store.run_rows import EPISODES, read_episode_file


def table(rows, **columns):
    made = {
        field.name: pa.array(np.zeros(rows, field.type.to_pandas_dtype())) for field in EPISODES
    }
    return pa.table({**made, **columns})


def lists(rows):
    return pa.array([[1.0] * 1_000] * rows)


BAD = {
    "a million rows": (table(1_000_000), {}, "declares 1,000,000 episodes"),
    "rows of many groups": (table(101_000), {"row_group_size": 1_000}, "declares 101,000 episodes"),
    "lists": (table(2, raw_return=lists(2)), {}, "column raw_return has no numbers"),
    "texts": (table(2, length=pa.array(["x", "y"])), {}, "column length has no numbers"),
    "another codec": (table(2), {"compression": "zstd"}, "is not packed as this program does"),
    "a missing column": (table(2).drop_columns("length"), {}, "length"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_file_that_could_take_much_memory_is_refused(what, tmp_path):
    made, options, message = BAD[what]
    write_results(tmp_path, plan_runs(2))
    [path, *_] = sorted(tmp_path.rglob("episodes.parquet"))
    pq.write_table(made, path, **options)
    before = pa.total_allocated_bytes()
    for read in (read_episode_file, lambda path: read_run(RunDirectory(path.parent))):
        with pytest.raises(InputError, match=message) as caught:
            read(path)
        assert "\n" not in str(caught.value)
    assert pa.total_allocated_bytes() <= before
    [left_out] = collect(tmp_path).quarantined
    assert message in left_out.reason


def test_an_own_file_is_read(tmp_path):
    write_results(tmp_path, plan_runs(2))
    [path, *_] = tmp_path.rglob("episodes.parquet")
    assert read_episode_file(path).schema.equals(EPISODES)


@pytest.mark.parametrize("line", ["[5]", "[]", '"a"', '{"step": 1e300, "loss": 1}', "{}"])
def test_a_line_that_is_no_point_of_a_curve_is_refused(line, tmp_path):
    write_results(tmp_path, plan_runs(2))
    [path, *_] = sorted(tmp_path.rglob("metrics.jsonl"))
    path.write_text(line + "\n")
    with pytest.raises(InputError, match="not a learning curve"):
        read_run(RunDirectory(path.parent))
