import subprocess
import sys

import numpy as np
import pytest

from imitbench.data import trajectory_source
from imitbench.data.demonstrations import read_demonstrations, write_demonstrations
from imitbench.data.parquet_source import ParquetSource
from imitbench.data.sources import open_trajectories
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.data.trajectory_source import MemorySource
from imitbench.errors import InputError


def episodes(count, steps=50, obs=4):
    rng = np.random.default_rng(0)
    return [
        TrajectoryWithRew(
            rng.normal(size=(steps + 1, obs)),
            rng.normal(size=(steps, 2)),
            None,
            True,
            rng.normal(size=steps),
        )
        for _ in range(count)
    ]


@pytest.fixture
def small_chunks(monkeypatch):
    """About ten of the episodes are in memory at a time."""
    monkeypatch.setattr(trajectory_source, "CHUNK_BYTES", 20_000)


def saved(folder, made, form):
    from imitbench.data import serialize

    if form == "datasets":
        serialize.save(folder, made)
    elif form == "npz":
        folder = folder.with_suffix(".npz")
        np.savez(
            folder,
            obs=np.concatenate([t.obs for t in made]),
            acts=np.concatenate([t.acts for t in made]),
            rews=np.concatenate([t.rews for t in made]),
            terminal=np.array([t.terminal for t in made]),
            indices=np.cumsum([len(t) for t in made])[:-1],
        )
    else:
        write_demonstrations(folder, made)
    return folder


@pytest.mark.parametrize("form", ["parquet", "datasets", "npz"])
def test_streaming_gives_the_whole_data_set(tmp_path, small_chunks, form):
    made = episodes(100)
    source = open_trajectories(saved(tmp_path / "a", made, form))
    assert len(source) == 100
    assert source.read() == made
    assert source.read(limit=7) == made[:7]
    chunks = list(source.chunks(with_infos=False))
    assert len(chunks) >= 5
    assert [chunk.first_row for chunk in chunks] == np.cumsum(
        [0, *(len(chunk.rows) for chunk in chunks[:-1])]
    ).tolist()
    assert all(np.array_equal(a.obs, b.obs) for a, b in zip(source, made, strict=True))


@pytest.mark.parametrize("limit", [1, 10, 11, 99, 100, 1000])
def test_a_limit_cuts_within_a_chunk(tmp_path, small_chunks, limit):
    made = episodes(100)
    write_demonstrations(tmp_path, made)
    assert ParquetSource(tmp_path).read(limit=limit) == made[:limit]


_MEASURE = """
import sys, tracemalloc
from pathlib import Path
import pyarrow as pa
from imitbench.data import trajectory_source
from imitbench.data.sources import open_trajectories
trajectory_source.CHUNK_BYTES = 2**20
tracemalloc.start()
steps = sum(len(each) for each in open_trajectories(Path(sys.argv[1])))
print(steps, tracemalloc.get_traced_memory()[1] + pa.default_memory_pool().max_memory())
"""


@pytest.mark.parametrize("form", ["parquet", "datasets", "npz"])
def test_a_large_data_set_is_never_in_memory_as_a_whole(tmp_path, form):
    made = episodes(600, steps=500, obs=16)
    total = sum(each.obs.nbytes for each in made)
    folder = saved(tmp_path / "a", made, form)
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(folder)], capture_output=True, text=True, check=True
    )
    steps, peak = map(int, done.stdout.split())
    assert steps == 300_000
    assert peak < total / 3, f"{peak} bytes at once for a set of {total}"


def damaged_after_the_first_group(tmp_path, made):
    """A set whose later row groups cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from imitbench.data.arrow_table import trajectories_to_table

    path = tmp_path / "a.parquet"
    table = trajectories_to_table(made)
    with pq.ParquetWriter(path, table.schema, write_page_checksum=True) as writer:
        for start in range(0, len(made), 10):
            writer.write_table(table[start : start + 10])
    with pq.ParquetFile(path) as file:
        place = file.metadata.row_group(1).column(0).data_page_offset
    raw = bytearray(path.read_bytes())
    raw[place + 200] ^= 0xFF
    path.write_bytes(raw)
    assert isinstance(table, pa.Table)
    return path


def test_unrequested_row_groups_are_not_read(tmp_path):
    made = episodes(30)
    path = damaged_after_the_first_group(tmp_path, made)
    assert ParquetSource(path).read(limit=10) == made[:10]
    assert read_demonstrations(path, rows=[0, 3, 25]) == [made[0], made[3], made[25]]
    for way in (
        lambda: read_demonstrations(path),
        lambda: read_demonstrations(path, rows=[11]),
        lambda: ParquetSource(path).read(limit=11),
    ):
        with pytest.raises(InputError, match="not readable as Parquet"):
            way()


def test_rows_are_counted_over_all_shards(tmp_path, small_chunks):
    made = episodes(60)
    write_demonstrations(tmp_path, made[:25], shard="train-00000-of-00002")
    write_demonstrations(tmp_path, made[25:], shard="train-00001-of-00002")
    rows = [0, 24, 25, 40, 59]
    assert read_demonstrations(tmp_path, rows=rows) == [made[row] for row in rows]
    assert read_demonstrations(tmp_path, rows=[]) == []
    with pytest.raises(InputError, match="60 trajectories, so no episode 60"):
        read_demonstrations(tmp_path, rows=[1, 60])
    for wrong in ([1, 1], [2, 1], [-1, 3]):
        with pytest.raises(ValueError, match="increasing"):
            read_demonstrations(tmp_path, rows=wrong)


def test_trajectories_in_memory_are_a_source_too(small_chunks):
    made = episodes(40)
    source = MemorySource(made, where="here", form="list")
    assert source.read(limit=3) == made[:3]
    chunks = list(source.chunks(with_infos=True, limit=30))
    assert sum(len(chunk.rows) for chunk in chunks) == 30
    assert chunks[0].infos[0].as_py() == ["{}"] * 50
