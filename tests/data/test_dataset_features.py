"""Schemas in the form of the hub's cards."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from imitbench.data.dataset_card import dataset_info, feature
from imitbench.errors import InputError

TYPES = {
    "flag": pa.bool_(),
    "count": pa.int64(),
    "return": pa.float64(),
    "name": pa.large_string(),
    "rows": pa.list_(pa.float32()),
    "image": pa.list_(pa.large_list(pa.list_(pa.uint8(), 3))),
}


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_datasets_understands_every_type(kind):
    import datasets  # slowly, and not by every test worker

    read = datasets.Features._from_yaml_list([{"name": "column", **feature(kind)}])
    stored = read.arrow_schema.field("column").type
    assert feature(stored) == feature(kind)


def test_rows_and_bytes_of_all_files_are_counted(tmp_path):
    paths = [tmp_path / f"train-{number}.parquet" for number in range(2)]
    for number, path in enumerate(paths):
        pq.write_table(pa.table({"terminal": [True] * (number + 2)}), path)
    info = dataset_info(paths)
    assert info["features"] == [{"name": "terminal", "dtype": "bool"}]
    assert info["splits"][0]["num_examples"] == 5
    assert info["download_size"] == sum(path.stat().st_size for path in paths)


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "train.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"train\.parquet: cannot be read"):
        dataset_info([tmp_path / "train.parquet"])
