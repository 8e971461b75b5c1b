import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from imitbench.data.arrow_table import arrow_view, numpy_view

KINDS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "?", ">f8", ">i4"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [[], [0, 1, 1, 0, 1]])
def test_numbers_survive_the_round_trip(kind, values):
    numbers = np.array(values, kind)
    column = arrow_view(numbers)
    column.validate(full=True)
    assert column.to_pylist() == numbers.tolist()
    back = numpy_view(column)
    assert back.dtype == numbers.dtype.newbyteorder("=")
    assert np.array_equal(back, numbers)


@pytest.mark.parametrize("kind", ["f4", "i8", "?"])
def test_slices_keep_their_offset_and_stride(kind):
    numbers = np.arange(12).astype(kind)
    part = arrow_view(numbers)[5:9]
    assert numpy_view(part).tolist() == numbers[5:9].tolist()
    strided = arrow_view(np.arange(12).astype(kind)[::3])
    assert strided.to_pylist() == numbers[::3].tolist()


def test_the_views_share_memory():
    numbers = np.arange(4.0)
    assert np.shares_memory(numpy_view(arrow_view(numbers)), numbers)
    assert not numpy_view(pa.array([1.0])).flags.writeable


_READ = """
import sys
from pathlib import Path
from imitbench.data.sources import open_trajectories
assert open_trajectories(Path(sys.argv[1])).read(with_infos=True)
loaded = {"pandas", "torch", "datasets"} & set(sys.modules)
assert not loaded, loaded
"""


def test_reading_a_set_imports_no_heavy_package(tmp_path, trajectories):
    from imitbench.data import serialize
    from imitbench.data.demonstrations import write_demonstrations

    write_demonstrations(tmp_path / "a", trajectories())
    serialize.save(tmp_path / "b", trajectories())
    for name in ("a", "b"):
        done = subprocess.run(
            [sys.executable, "-c", _READ, str(tmp_path / name)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
