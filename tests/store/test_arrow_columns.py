"""Arrow tables of Python values are those of Arrow, without pandas."""

import subprocess
import sys

import pyarrow as pa
import pytest
from support.runs import make_spec
from support.synthetic_runs import write_failed, write_finished

from imitbench.store.arrow_columns import arrow_column, arrow_rows

COLUMNS = [
    [],
    [None, None],
    ["", "a", None, "\N{GREEK SMALL LETTER ALPHA}\0b"],
    [1, None, -(2**63), 2**63 - 1],
    [0.5, None, float("inf"), -0.0],
    [True, None, False, *[True] * 9],
    [1, 2.5],
    [[1], None],
]


@pytest.mark.parametrize("values", COLUMNS)
def test_a_column_is_that_of_arrow(values):
    column = arrow_column(values)
    column.validate(full=True)
    assert column.equals(pa.array(values))
    assert column.type == pa.array(values).type
    assert column.null_count == values.count(None)


def test_the_type_may_be_given():
    for values, kind in (([1, None], pa.int32()), ([], pa.string()), ([None], pa.float64())):
        assert arrow_column(values, kind).equals(pa.array(values, kind))
    with pytest.raises(pa.ArrowInvalid):
        arrow_column(["a"], pa.float64())


@pytest.mark.parametrize("build", [arrow_column, pa.array])
def test_too_large_an_integer_is_refused(build):
    with pytest.raises(OverflowError):
        build([2**63])


@pytest.mark.parametrize("schema", [None, pa.schema([("b", pa.float64()), ("a", pa.string())])])
@pytest.mark.parametrize("rows", [[], [{"a": "x", "b": 1.0}, {"b": None, "c": 2}]])
def test_rows_are_those_of_arrow(rows, schema):
    assert arrow_rows(rows, schema).equals(pa.Table.from_pylist(rows, schema))


COLLECTING = """
import sys
from pathlib import Path
import duckdb
duckdb.connect().execute("SELECT ?", ["text"])
if "pandas" in sys.modules:
    sys.exit("early versions of DuckDB import it themselves")
from imitbench.store.collector import collect
assert collect(Path("runs")).added == 3
next(Path("runs").glob("**/error.json")).unlink()
assert collect(Path("runs")).removed == 1
from imitbench.cli.main import app
app(["report"], standalone_mode=False)
app(["compare", "bc", "--baseline", "random"], standalone_mode=False)
app(["sql", "--out", "published", "select 1"], standalone_mode=False)
assert not {"pandas", "scipy.stats"} & set(sys.modules)
"""


def test_from_runs_to_a_report_and_a_comparison_slow_imports_are_avoided(tmp_path):
    for algo in ("bc", "random"):
        write_finished(tmp_path / "runs", make_spec(algo=algo), measures={"noise": 0.5})
    write_failed(tmp_path / "runs", make_spec(seed=1))
    done = subprocess.run(
        [sys.executable, "-c", COLLECTING], capture_output=True, text=True, cwd=tmp_path
    )
    if "early versions" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
