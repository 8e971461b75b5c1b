"""The schema of a data set in the form of the hub's cards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from imitbench.errors import InputError

_LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
_NAMES = {"double": "float64", "float": "float32", "halffloat": "float16", "large_string": "string"}


def dataset_info(files: Sequence[Path]) -> dict[str, Any]:
    """Columns, rows and bytes for the section `dataset_info` of a card.

    Args:
        files: Parquet files of the split `train`.

    Raises:
        InputError: A file cannot be read.
    """
    rows = unpacked = 0
    schema: pa.Schema | None = None
    for file in files:
        try:
            metadata = pq.read_metadata(file)
            schema = schema or metadata.schema.to_arrow_schema()
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{file}: cannot be read ({str(error).splitlines()[0]})") from error
        rows += metadata.num_rows
        unpacked += sum(
            metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)
        )
    fields = [] if schema is None else list(schema)
    return {
        "features": [{"name": each.name, **feature(each.type)} for each in fields],
        "splits": [{"name": "train", "num_bytes": unpacked, "num_examples": rows}],
        "download_size": sum(file.stat().st_size for file in files),
        "dataset_size": unpacked,
    }


def feature(kind: pa.DataType) -> dict[str, Any]:
    """A column type in the notation that every version of `datasets` reads.

    Args:
        kind: Arrow type of the column.

    Returns:
        `{"dtype": …}`, or `{"sequence": …}` for lists.
    """
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if not isinstance(kind, _LISTS):
        return {"dtype": _NAMES.get(str(kind), str(kind))}
    inner = feature(kind.value_type)
    return {"sequence": inner.get("dtype", inner)}
