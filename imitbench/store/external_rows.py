"""Turns imported results into rows of the database, as Arrow tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from imitbench.store.external_results import ExternalHeader, ExternalRun

_RUN_ID_LENGTH = 16

_COLUMNS: dict[str, pa.DataType] = {
    **dict.fromkeys(("run_id", "name", "tool"), pa.string()),
    **dict.fromkeys(ExternalRun.model_fields, pa.string()),
    **dict.fromkeys(("seed", "n_demos", "episodes", "env_steps", "expert_episodes"), pa.int64()),
    "all_demos": pa.bool_(),
    **dict.fromkeys(
        (
            "raw_return", "return_std", "score", "score_deterministic", "mean_length", "wall_s",
            "expert_return", "expert_std", "reference_random", "reference_expert",
        ),
        pa.float64(),
    ),
}  # fmt: skip


def external_table(header: ExternalHeader, runs: Sequence[ExternalRun]) -> pa.Table:
    """Rows of table `external`."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        content = f"{header.name}\n{run.model_dump_json(exclude_none=True)}"
        rows.append(
            dict(run)
            | {
                "run_id": hashlib.sha256(content.encode("utf-8")).hexdigest()[:_RUN_ID_LENGTH],
                "name": header.name,
                "tool": header.tool,
                "score": run.any_score,
                "provenance": json.dumps(run.provenance, sort_keys=True),
            }
        )
    return pa.Table.from_pylist(rows, schema=pa.schema(list(_COLUMNS.items())))
