"""Tables with one row per run become external runs; every wrong line is reported."""

import os

import pytest

from imitbench.errors import InputError
from imitbench.store.importers import long_table
from imitbench.store.importers.long_table import COLUMNS, InvalidLinesError, import_csv


@pytest.fixture
def table(tmp_path):
    """Writes a table; `None` cells are empty."""

    def write(*lines, encoding="utf-8"):
        path = tmp_path / "table.csv"
        path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
        return path

    return write


def test_a_row_is_a_run(table):
    results = import_csv(
        table(
            "algo,env,seed,raw_return,score,n_demos,env_steps,all_demos",
            "bc,Pendulum-v1,0,-150.5,0.98,10,1e6,false",
            "",
            "dagger,Pendulum-v1,1,-140,,,,",
        )
    )
    first, second = results.runs
    assert (first.place, first.algo, first.env, first.seed) == ("line 2", "bc", "Pendulum-v1", 0)
    assert (first.raw_return, first.score) == (-150.5, 0.98)
    assert (first.n_demos, first.env_steps, first.all_demos) == (10, 1_000_000, False)
    assert (second.place, second.raw_return, second.score) == ("line 4", -140.0, None)
    assert (second.n_demos, second.status) == (None, "completed")
    assert results.counts == {"completed": 2}


def test_column_names_are_normalized_and_skipped_columns_are_noted(table):
    results = import_csv(
        table("Environment, Return ,ALGORITHM,colour,", "Ant-v4,5,bc,blue,x", encoding="utf-8-sig")
    )
    [run] = results.runs
    assert (run.algo, run.env, run.raw_return, run.seed) == ("bc", "Ant-v4", 5.0, None)
    assert results.notes == [
        "columns left out: colour, (no name)",
        "1 rows say no seed: each counts as a run of its own",
    ]


def test_every_recognized_column_is_imported(table):
    cells = {"algo": "a", "env": "e", "status": "completed", "all_demos": "True"}
    cells["demo_actions"] = "hidden"
    results = import_csv(
        table(",".join(COLUMNS), ",".join(cells.get(column, "1") for column in COLUMNS))
    )
    [run] = results.runs
    lost = {name for name in COLUMNS if getattr(run, name, None) is None}
    assert lost == {"error_type", "message", "run_id", "uses_reward", "role", "phase"}
    assert set(run.provenance) == {"run_id", "uses_reward", "role", "phase"}
    assert results.notes == []


def test_runs_that_did_not_complete_need_no_result(table):
    results = import_csv(
        table(
            "algo,env,seed,score,status,reason",
            "bc,A,0,1,completed,",
            "bc,A,1,,failed,out of memory",
            "bc,A,2,,Killed,",
        )
    )
    assert [(run.status, run.reason) for run in results.runs] == [
        ("completed", ""),
        ("failed", "out of memory"),
        ("killed", "says no reason"),
    ]


def test_failures_of_the_database_stay_failures(table):
    [run] = import_csv(
        table(
            "run_id,suite,env,algo,seed,phase,error_type,message",
            'ab12,classic,A,bc,0,train,ValueError,"it\nbroke"',
        )
    ).runs
    assert (run.status, run.reason) == ("failed", "ValueError: it broke")
    assert run.provenance == {"run_id": "ab12", "phase": "train"}


def test_all_wrong_lines_are_reported_with_their_numbers(table):
    path = table(
        "algo,env,seed,raw_return,status",
        "bc,A,0,1.5,",  # valid
        "bc,A,1,much,",
        "bc,A,1.5,2,",
        "bc,A",
        ",A,3,2,",
        "bc,A,4,nan,",
        "bc,A,5,,",
        "bc,A,0,1.7,",
        'bc,"A\nB",6,2,',  # a cell of two lines
        "bc,A,7,2,finished",
        "bc,A,99999999999999999999,2,",
    )
    with pytest.raises(InvalidLinesError) as caught:
        import_csv(path)
    told = caught.value.problems
    assert "\n" not in str(caught.value)
    assert "10 lines are wrong, nothing was imported; line 3" in str(caught.value)
    expected = {
        "line 3": "raw_return: 'much' is not a number",
        "line 4": "seed: '1.5' is not a whole number",
        "line 5": "2 cells, and the header has 5",
        "line 6": "algo and env",
        "line 7": "raw_return: Input should be a finite number",
        "line 8": "raw_return or score",
        "line 9": "the same run as line 2 (bc on A, seed 0)",
        "line 10": "control characters or line breaks",
        "line 12": "status 'finished'",
        "line 13": "seed: Input should be less than",
    }
    assert len(told) == len(expected)
    for problem, (line, what) in zip(told, expected.items(), strict=True):
        assert problem.startswith(f"{line}: ")
        assert what in problem


def test_many_wrong_lines_are_counted(table):
    path = table("algo,env,score", *["bc,A,x"] * 50)
    with pytest.raises(InvalidLinesError) as caught:
        import_csv(path)
    assert len(caught.value.problems) == 21
    assert caught.value.problems[-1] == "… and 30 more lines"


def test_rows_without_a_seed_and_variants_are_not_repetitions(table):
    header = "algo,env,seed,score,config"
    path = table(header, "bc,A,,1,", "bc,A,,1,", "bc,A,0,1,small", "bc,A,0,1,large")
    assert import_csv(path).counts == {"completed": 4}


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "../../x", "a|b & c_d%", "=cmd()"])
def test_odd_names_stay_text(table, name):
    assert import_csv(table("algo,env,score", f"{name},A,1")).runs[0].algo == name


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["algo,score", "bc,1"], "line 1: column env is missing; it has algo, score"),
        (["algo,env", "bc,A"], "column raw_return or score is missing"),
        (["algo;env;score", "bc;A;1"], "separated by commas"),
        (["algo,env,score,score", "bc,A,1,1"], "two columns are 'score'"),
        (["algo,algorithm,env,score", "bc,bc,A,1"], "two columns are 'algo'"),
        (["algo,env,score"], "no rows"),
        ([], "column algo is missing; it has nothing"),
        (["algo,env,score", 'bc,"A,1'], "line 2: is not a CSV table"),
        (["algo,env,score", f"{'b' * 200_000},A,1"], "line 2: is not a CSV table"),
    ],
)
def test_invalid_tables_are_refused_in_one_line(table, lines, told):
    with pytest.raises(InputError) as caught:
        import_csv(table(*lines))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_encodings_are_reported_with_the_line(table):
    path = table("algo,env,score", "bc,A,1", "é,A,1", encoding="latin-1")
    with pytest.raises(InputError, match="line 3: is not UTF-8"):
        import_csv(path)


def test_huge_tables_and_missing_files_are_refused(table, tmp_path, monkeypatch):
    path = table("algo,env,score", "bc,A,1", "bc,A,1")
    with monkeypatch.context() as patch:
        patch.setattr(long_table, "MAX_RUNS", 1)
        with pytest.raises(InputError, match="more than 1 rows"):
            import_csv(path)
    with path.open("ab") as stream:
        stream.truncate(2**34)  # a sparse file, which uses no disk space
    with pytest.raises(InputError, match="more than 268435456 bytes"):
        import_csv(path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing", "."):
        with pytest.raises(InputError):
            import_csv(tmp_path / name)
