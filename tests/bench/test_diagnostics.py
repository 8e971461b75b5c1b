"""Suite `diagnostics`: unusual spaces, early termination, a separate evaluation environment."""

import pyarrow.parquet as pq
import pytest
from support.evaluation import short_training
from support.plans import make_plan

from imitbench.records.runs import EnvironmentSpec
from imitbench.store.run_dir import RunDirectory

# Small enough for two rounds within seconds.
SMALL = {
    "n_envs": "2", "n_steps": "32", "n_epochs": "2", "hidden_size": "8", "learning_starts": "100",
    "rollout_round_min_timesteps": "100", "rollout_round_min_episodes": "2",
    "total_comparisons": "4", "num_iterations": "1", "reward_epochs": "1", "transfer_steps": "0",
    "density.kernel_bandwidth": "1.0",
}  # fmt: skip
METHODS = ("airl", "bc", "dagger", "density", "gail", "preference_comparisons", "sqil")
ODD = {
    "seals/Branching-v0": "observations are choices",
    "seals/EarlyTermNeg-v0": "episodes end early",
    "seals/LargestSum-v0": "episodes have one step",
    "seals/Parabola-v0": "actions are numbers without an axis",
    "seals/Sort-v0": "actions are several choices at once",
}


def diagnostics(algorithms, environment, **settings):
    return make_plan(
        algorithms=algorithms,
        suite="diagnostics",
        environment=environment,
        seeds=[0],
        budget="quick",
        **settings,
    )


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("environment", ODD)
def test_every_method_runs_or_says_why_it_does_not(tmp_path, sweep, environment):
    plan = diagnostics(list(METHODS), environment, n_demos=20, overrides=SMALL)
    with short_training(env_steps=200, batches=20):
        outcome = sweep(plan, tmp_path)
    assert [failure.message for _, failure in outcome.failed] == []
    assert outcome.done == len(METHODS) - len(plan.not_applicable)
    measured = {
        path.parts[-4]: RunDirectory(path.parent).read_result().measures
        for path in tmp_path.glob("*/*/*/*/result.json")
    }
    if environment in ("seals/Parabola-v0", "seals/Sort-v0"):  # where true rewards are no constant
        # The suite's expert takes part, though the method does not know it.
        assert {"reward_correlation", "reward_step_correlation"} < measured["airl"].keys()


def test_pairs_that_do_not_fit_together_are_reported():
    requested = ["bc", "airl", "preference_comparisons", "sqil", "csil"]
    request = diagnostics(requested, None)
    found = {
        (each.algo, each.env): each.why for each in request.not_applicable if each.algo != "csil"
    }
    continuous_only = [each for each in request.not_applicable if each.algo == "csil"]
    assert {each.why for each in continuous_only} == {
        "acts in box spaces only; this one is discrete",
        "acts in box spaces only; this one is multi_discrete",
    }
    assert found == {
        ("preference_comparisons", "seals/EarlyTermPos-v0"): (
            "needs episodes of one length; those of this environment differ"
        ),
        ("preference_comparisons", "seals/EarlyTermNeg-v0"): (
            "needs episodes of one length; those of this environment differ"
        ),
        ("sqil", "seals/Sort-v0"): (
            "acts in discrete and box spaces only; this one is multi_discrete"
        ),
    }


def test_methods_that_plan_run_on_the_tables():
    runs = diagnostics(["mce_irl"], None)
    assert {run.environment.id for run in runs} == {
        f"seals/{name}-v0"
        for name in ("RiskyPath", "EarlyTermPos", "EarlyTermNeg", "Branching", "InitShiftTrain")
    }


@pytest.mark.parametrize(
    ("name", "score"), [("RiskyPath", 3.0), ("EarlyTermPos", 10.0), ("EarlyTermNeg", -2.0)]
)
def test_a_planner_acts_as_the_expert_where_maximum_entropy_over_paths_would_not(
    tmp_path, sweep, name, score
):
    plan = diagnostics(["mce_irl"], f"seals/{name}-v0")
    sweep(plan, tmp_path)
    [directory] = [RunDirectory.of(tmp_path, run) for run in plan]
    assert directory.read_result().raw_return == pytest.approx(score, abs=0.5)


def test_policies_are_evaluated_where_the_card_says(tmp_path, sweep):
    plan = diagnostics(["random"], "seals/InitShift*")
    [run] = list(plan)
    assert run.environment.id == "seals/InitShiftTrain-v0"
    sweep(plan, tmp_path)
    episodes = pq.read_table(RunDirectory.of(tmp_path, run).path / "episodes.parquet").to_pandas()
    assert set(episodes.raw_return) == {-2.0, 2.0}  # from the root it would be -1, 1 or 2


class TestEvaluationId:
    def test_is_written_down_only_where_there_is_one(self):
        usual = EnvironmentSpec(id="a")
        assert usual.model_dump(mode="json") == {
            "id": "a", "module": None, "kwargs": {}, "horizon": "fixed",
        }  # fmt: skip
        assert EnvironmentSpec.model_validate_json(usual.model_dump_json()) == usual
        other = EnvironmentSpec(id="a", evaluation_id="b")
        assert other.model_dump(mode="json")["evaluation_id"] == "b"
        assert EnvironmentSpec.model_validate_json(other.model_dump_json()) == other

    def test_names_where_to_evaluate(self):
        usual = EnvironmentSpec(id="a")
        assert usual.evaluated is usual
        spec = EnvironmentSpec(id="a", kwargs={"x": 1}, horizon="variable", evaluation_id="b")
        expected = EnvironmentSpec(id="b", kwargs={"x": 1}, horizon="variable")
        assert spec.evaluated == expected

    def test_makes_another_run(self, plan_of):
        [run] = plan_of(seeds=[0])
        elsewhere = run.environment.model_copy(update={"evaluation_id": "Pendulum-v2"})
        assert run.model_copy(update={"environment": elsewhere}).run_id != run.run_id
