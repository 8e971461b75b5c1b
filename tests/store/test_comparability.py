"""Comparable runs and current runs, in reports and in published results."""

import random
from itertools import combinations, product

import pytest
from support.command import call_imitbench
from support.runs import make_spec

from imitbench.published.results_folder import read_runs
from imitbench.records.runs import DemoSpec, EnvironmentSpec
from imitbench.store import database
from imitbench.store.collector import collect
from imitbench.store.comparability import Conditions, whole_conditions

OLD, NEW = ({"algo": "mine", "implementation_digest": digit * 64} for digit in "ab")


def day(number):
    return f"2026-01-{number:02}T00:00:00.000+00:00"


def shown(out):
    """Ids of completed and of failed runs that reports show."""
    collect(out)
    with database.reader(out) as connection:
        rows = database.read_scores(connection), database.read_failures(connection)
    return tuple({row.run_id for row in each} for each in rows)


def test_a_fixed_plug_in_supersedes_its_failures(tmp_path, finished, failed):
    for seed in range(2):
        failed(make_spec(seed=seed, **OLD), at=day(1))
    mended = [make_spec(seed=seed, **NEW) for seed in range(2)]
    for spec in mended:
        finished(spec, at=day(2))
    assert shown(tmp_path) == ({spec.run_id for spec in mended}, set())
    published = read_runs(tmp_path)
    assert [run.spec for run in published.runs] == mended
    assert published.superseded == 2


def test_a_plug_in_that_an_edit_broke_has_failed(tmp_path, finished, failed):
    finished(make_spec(seed=0, **OLD), at=day(1))
    broken = make_spec(seed=0, **NEW)
    failed(broken, at=day(2))
    assert shown(tmp_path) == (set(), {broken.run_id})


def test_runs_under_two_settings_are_not_averaged(tmp_path, finished):
    """They have the same label if a value on a card was edited, or demonstrations were replaced."""
    for seed in range(3):
        finished(make_spec(seed=seed, hyperparameters={"learning_rate": 0.001}), at=day(1))
    edited = make_spec(seed=0, hyperparameters={"learning_rate": 0.5})
    finished(edited, at=day(2))
    assert shown(tmp_path) == ({edited.run_id}, set())
    answer = call_imitbench("report", "--out", ".", "--replicates", "100", cwd=tmp_path)
    assert "skipped: 3 runs under settings that newer runs have superseded" in answer.err


def test_each_seed_draws_its_own_demonstrations_under_one_setting(tmp_path, finished):
    demos = {"source": "bundled", "repo": "ppo-x", "digest": "0" * 64, "available": 20, "count": 5}
    for seed in range(3):
        finished(
            make_spec(seed=seed, demos=DemoSpec(**demos, subsample_seed=seed)), at=day(seed + 1)
        )
    assert [len(ids) for ids in shown(tmp_path)] == [3, 0]


def test_another_set_of_all_demonstrations_supersedes_the_one_before(tmp_path, finished):
    def demos(available, count):
        return DemoSpec(source="bundled", repo="ppo-x", digest="0" * 64,
                        available=available, count=count)  # fmt: skip

    finished(make_spec(demos=demos(20, 20)), at=day(1))
    some = make_spec(demos=demos(30, 20))
    finished(some, at=day(2))
    every = make_spec(demos=demos(30, 30))
    finished(every, at=day(3))
    assert shown(tmp_path) == ({some.run_id, every.run_id}, set())


def test_the_fields_are_the_same_in_sql_and_in_python(tmp_path, finished):
    numbers = iter(range(100))
    sets = [(20, 20), (20, 10), (30, 20), None]
    for budget, given in product(["quick", "full"], sets):
        demos = given and DemoSpec(source="bundled", repo="ppo-x", digest="0" * 64,
                                   available=given[0], count=given[1])  # fmt: skip
        budget = make_spec().budget.model_copy(update={"name": budget})
        for _ in range(2):
            finished(make_spec(seed=next(numbers), demos=demos, budget=budget))
    collect(tmp_path)
    with database.reader(tmp_path) as connection:
        rows = database.read_scores(connection)
        query = f"SELECT list(run_id ORDER BY run_id) FROM scores GROUP BY {Conditions.sql()}"
        in_sql = {tuple(ids) for (ids,) in connection.execute(query).fetchall()}
    groups = {}
    for row in sorted(rows, key=lambda row: row.run_id):
        groups.setdefault(Conditions.of(row), []).append(row.run_id)
    assert in_sql == {tuple(ids) for ids in groups.values()}
    assert len(groups) == 8


def test_unknown_conditions_do_not_separate_runs():
    conditions = Conditions("classic", "quick", 10, "bundled")
    unknown = Conditions(None, "quick", None, None)
    others = [
        Conditions("seals", "quick", 10, "bundled"),
        Conditions("classic", "full", None, None),
    ]
    assert conditions.compatible(unknown)
    assert unknown.compatible(conditions)
    assert unknown.merged(conditions) == conditions.merged(unknown) == conditions
    assert not any(conditions.compatible(each) for each in others)
    assert (unknown.known, conditions.known) == (1, 4)


def test_methods_without_demonstrations_are_comparable_with_those_that_use_them():
    taught = Conditions("classic", "quick", 10, "bundled")
    asking = Conditions("classic", "quick", None, "bundled")
    untaught = Conditions("classic", "quick", None, None)
    for one, other in combinations([untaught, asking, taught], 2):
        assert one.is_part_of(other)
        assert not other.is_part_of(one)
    assert not untaught.is_part_of(Conditions("classic", None, None, None))
    assert not untaught.is_part_of(Conditions("seals", "quick", 10, "bundled"))


def test_export_reports_what_it_excludes(tmp_path, finished, failed):
    failed(make_spec(seed=0, **OLD), at=day(1))
    finished(make_spec(seed=0, **NEW), at=day(2))
    told = call_imitbench("results", "export", "submission", "--out", ".", cwd=tmp_path)
    assert "1 run, 1 superseded by newer ones skipped" in told.err


@pytest.mark.parametrize("seed", range(3))
def test_the_database_and_what_is_published_agree(tmp_path, finished, failed, seed):
    rng = random.Random(seed)
    for _ in range(40):
        own = rng.random() < 0.5
        spec = make_spec(
            seed=rng.randrange(2),
            algo="mine" if own else "bc",
            implementation_digest=rng.choice("ab") * 64 if own else None,
            environment=EnvironmentSpec(
                id=rng.choice(["A-v0", "B-v0"]), module_digest=rng.choice([None, None, "c" * 64])
            ),
            device=rng.choice(["cpu", "cuda"]),
            hyperparameters={"batch_size": rng.choice([32, 64])},
        )
        write = rng.choice([finished, failed])
        write(spec, at=day(rng.randrange(1, 6)))
    runs = read_runs(tmp_path).runs
    assert shown(tmp_path) == (
        {run.spec.run_id for run in runs if run.result},
        {run.spec.run_id for run in runs if run.failure},
    )
    assert runs


def test_methods_without_demonstrations_are_shown_beside_those_with_them():
    with_some = Conditions.recorded("classic", "quick", 5, "bundled")
    without = Conditions.recorded("classic", "quick", None, None)
    longer = Conditions.recorded("classic", "default", None, None)
    assert whole_conditions([with_some, without, longer]) == {with_some, longer}
