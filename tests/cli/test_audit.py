"""`imitbench audit`: the method's learner on constant rewards, and what that explains."""

import json

import pytest
from support.command import call_imitbench, refusal

from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.experts import audit
from imitbench.experts.audit import CONTROLS, controls_of, plan_audit, train_audit
from imitbench.experts.lookup import find_listed_environment
from imitbench.util.hub_client import silent


@pytest.mark.parametrize("name", algorithm_names())
def test_controls_have_the_learner_of_the_method(name):
    method = load_algorithm(name)
    own = method.resolve({})
    found = controls_of(method)
    assert tuple(found) == CONTROLS
    for control in found.values():
        values = control.card.resolve(dict(control.overrides))  # they are valid
        assert control.card.role == "control"
        if "buffer_size" in own:
            assert control.card.name == "constant_reward"
            assert values["gamma"] == own.get("gamma", values["gamma"])  # cloning has none
            assert values["absorbing_states"] == own.get("absorbing_states", False)
        elif "clip_range" in own:
            differing = {key for key in values if own.get(key, values[key]) != values[key]}
            # Learned rewards are scaled by their running statistics; a constant is not.
            assert differing <= {"reward_scaling"}
        else:
            assert control.overrides == {}


def test_rewards_of_the_controls_differ():
    signs = [
        control.overrides.get("reward") for control in controls_of(load_algorithm("dac")).values()
    ]
    assert signs == [None, "-1.0", "0.0"]
    names = [control.card.name for control in controls_of(load_algorithm("gail")).values()]
    assert names == ["constant_plus", "constant_minus", "zero_reward"]


def test_an_audit_in_a_suite_consists_of_ordinary_runs():
    listed = find_listed_environment("seals/EarlyTermPos-v0", None)
    plans = plan_audit(listed, "gail", [0, 4], "quick", "cpu", silent)
    assert {key: len(list(plan)) for key, plan in plans.items()} == {
        "method": 2, "plus": 2, "minus": 2, "zero": 2, "random": 1
    }  # fmt: skip
    by_key = {key: next(iter(plan)) for key, plan in plans.items()}
    gail, plus = by_key["method"], by_key["plus"]
    assert gail.variant == ""
    assert plus.budget == gail.budget
    assert plus.hyperparameters["gamma"] == gail.hyperparameters["gamma"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--env", "Reacher-v5", "--algo", "gale"), "did you mean 'gail'"),
        (("--env", "Reacher-v55", "--algo", "gail"), "environment Reacher-v55: cannot be created"),
        (("--env", "Reacher-v5", "--algo", "constant_plus"), "is a control, not a method"),
        (("--env", "Reacher-v5", "--algo", "dagger"), "queries an expert"),
        (("--env", "Reacher-v5", "--algo", "gail", "--seeds", "x"), "--seeds x: must be"),
        (("--env", "Reacher-v5", "--algo", "gail", "--demos", "none"), "none: neither a path"),
        (("--env", "Pendulum-v1", "--algo", "gail", "--demos", "x"), "suite classic has those"),
        (("--env", "seals/Sort-v0", "--algo", "dac"), "dac does not fit seals/Sort-v0"),
        (
            ("--env", "seals/CartPole-v0", "--algo", "gail", "--suite", "seals"),
            "not in suite seals",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line_and_nothing_is_written(words, line, tmp_path):
    assert line in refusal(call_imitbench("audit", *words, "--quiet", cwd=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_audit_outside_suites_keeps_nothing(tmp_path, monkeypatch):
    from contextlib import nullcontext

    from imitbench.bench.monitor import Monitor

    monkeypatch.chdir(tmp_path)
    amounts = {"env_steps": 4096, "replay_steps": 1200, "batches": 20}
    monkeypatch.setitem(audit.BUDGETS, "quick", audit.BudgetAmounts(**amounts))
    told = []
    found = train_audit(
        "CartPole-v1", "gail", [0], "quick", None, "audit", lambda _: nullcontext(Monitor()),
        told.append,
    )  # fmt: skip
    assert set(found) == {*CONTROLS, "random"}
    assert "gail is not trained: CartPole-v1 is in no suite" in told[0]
    lengths = {key: own[0].lengths.mean() for key, own in found.items()}
    assert lengths["plus"] > lengths["random"] > lengths["minus"]
    found = train_audit(
        "CartPole-v1", "dac", [0, 1], "quick", "ppo-seals-CartPole-v0", "audit",
        lambda _: nullcontext(Monitor()), silent,
    )  # fmt: skip
    assert [len(own) for own in found.values()] == [2, 2, 2, 2, 1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_audit_in_a_suite_prints_controls_and_a_sentence(tmp_path):
    words = ("audit", "--env", "seals/EarlyTermNeg-v0", "--algo", "bc", "--seeds", "1",
             "--budget", "quick", "--quiet")  # fmt: skip
    answer = call_imitbench(*words, cwd=tmp_path)
    assert answer.code == 0, answer
    shown = answer.out.splitlines()
    assert shown[0].split() == ["learner", "seeds", "return", "score", "mean", "length", "early",
                                "ends"]  # fmt: skip
    assert [line.split("  ")[0] for line in shown[2:7]] == [
        "bc", "constant plus (+1)", "constant minus (-1)", "zero reward (0)", "random actions"
    ]  # fmt: skip
    assert "the success of bc" in answer.out
    document = json.loads(call_imitbench(*words, "--json", cwd=tmp_path).out)
    assert document["learners"]["constant minus (-1)"]["early_ends"] == 1
    # Leaving early is all that the task asks for.
    assert document["share_of_constant_reward"] > 0.9
    assert document["sentences"][0].startswith("Ending episodes early alone explains")
    report = call_imitbench("report", "--to", "-", cwd=tmp_path).out
    assert "A constant positive reward (constant_plus) scores" in report
