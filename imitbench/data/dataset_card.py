"""The card (`README.md`) of a converted or recorded data set, as the hub displays it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from imitbench.errors import InputError


def dataset_card(
    summary: dict[str, Any], remarks: Sequence[str] = (), *, made: str = "converted from"
) -> str:
    """Returns the card of a data set.

    Args:
        summary: Result of `imitbench.data.conversion.ConversionSummary.to_json`.
        remarks: Sentences on how the source was read.
        made: How the data set came from its source.

    Returns:
        Markdown with the hub's metadata, without a license, which only the author of the data
        set knows.
    """
    metadata = {
        "tags": ["imitation-learning", "reinforcement-learning", "imitbench"],
        "configs": [{"config_name": "default", "data_files": "data/*.parquet"}],
    }
    environment = summary["environment"] or "an environment that was not named"
    shortest, longest = summary["lengths"]
    has_rewards = summary["mean_return"] == summary["mean_return"]
    returns = (
        f"{summary['mean_return']:.2f} ± {summary['std_return']:.2f}"
        if has_rewards
        else "not recorded"
    )
    facts = {
        "trajectories": summary["rows"],
        "steps": summary["steps"],
        "length": f"{shortest} to {longest}",
        "return (mean ± standard deviation)": returns,
        "observation": summary["observation"],
        "action": summary["action"],
        "not marked as the end of an episode": summary["unfinished"],
        made: f"{summary['source']} ({summary['form']})",
        "digest of the data files": summary["digest"],
    }
    if remarks:
        facts["remarks"] = "; ".join(remarks)
    table = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return (
        f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n"
        f"# Demonstrations on {environment}\n\n"
        f"| | |\n|---|---|\n{table}\n\n"
        "One row per trajectory: `obs` (length + 1 observations), `acts`, `infos` (texts), "
        f"`terminal`{', `rews`' if has_rewards else ''}.\n"
    )


_LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
_NAMES = {"double": "float64", "float": "float32", "halffloat": "float16", "large_string": "string"}


def dataset_info(files: Sequence[Path]) -> dict[str, Any]:
    """Returns columns, rows and bytes for the section `dataset_info` of a card.

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
        "features": [{"name": field.name, **feature(field.type)} for field in fields],
        "splits": [{"name": "train", "num_bytes": unpacked, "num_examples": rows}],
        "download_size": sum(file.stat().st_size for file in files),
        "dataset_size": unpacked,
    }


def feature(kind: pa.DataType) -> dict[str, Any]:
    """Returns a column type in the notation that every version of `datasets` reads.

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
