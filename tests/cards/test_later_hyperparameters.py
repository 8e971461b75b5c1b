"""Keys added to a card after runs were published do not change ids and meaning of these runs."""

import json
from pathlib import Path

import pytest
from support.plans import request_of

from imitbench.bench.implementation import card_of
from imitbench.bench.spec import make_spec
from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.catalog import load_algorithm, load_suite
from imitbench.cards.plugins import find_algorithm
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.conformance.reproduction import sample_runs
from imitbench.errors import InputError
from imitbench.published.card_checks import check_against_cards
from imitbench.published.findings import Findings
from imitbench.published.submission import LocatedRun
from imitbench.records.published import PublishedRun
from imitbench.records.runs import ReferenceScores, RunFailure, RunSpec
from imitbench.util.source_import import register

RESULTS = Path(__file__).resolve().parents[2] / "results"
LEARNT = ("gail", "airl", "density", "preference_comparisons", "zero_reward", "constant_plus",
          "constant_minus")  # fmt: skip

CARD = """\
schema_version: 1
name: mine
title: Mine
summary: A method.
implementation: imitbench.bench.learners.anchors:RandomLearner
needs:
  demos: false
  action_spaces: [box]
budget_unit: none
seconds_per_1000: 1.0
hyperparameters:
  rate: {type: float, default: 0.5, help: A.}
  noise: {type: float, default: 0.1, absent: 0, help: B.}
  limit: {type: float, default: 2.0, optional: true, absent: null, help: C.}
"""


def published():
    """A specification of each algorithm and environment in the published results."""
    found = {}
    for path in sorted(RESULTS.glob("imitbench-*/runs/*.jsonl")):
        for line in path.read_text().splitlines():
            document = json.loads(line)
            spec = document["spec"]
            if spec["algo"] in LEARNT:
                key = spec["algo"], spec["environment"]["id"], spec["budget"]["name"]
                found.setdefault(key, (document["run_id"], spec))
    return list(found.values())


def write_card(folder, text=CARD):
    (folder / "card.yaml").write_text(text)
    return read_yaml_model(folder / "card.yaml", AlgorithmCard)


def test_a_record_omits_later_keys_with_their_absent_value(tmp_path):
    card = write_card(tmp_path)
    assert card.recorded(card.resolve({})) == {"rate": 0.5, "noise": 0.1, "limit": 2.0}
    plain = card.resolve({"noise": "0", "limit": "null"})
    assert card.recorded(plain) == {"rate": 0.5}
    assert card.completed({"rate": 0.5}) == plain
    assert card.completed({"limit": 1.0, "rate": 0.1}) == {"rate": 0.1, "noise": 0.0, "limit": 1.0}
    assert card.completed({"trick": 1}) == {"noise": 0.0, "limit": None, "trick": 1}


def test_the_absent_value_must_be_accepted_by_the_card(tmp_path):
    with pytest.raises(InputError, match=r"hyperparameters.noise.absent must be float, not 'no'"):
        write_card(tmp_path, CARD.replace("absent: 0", "absent: 'no'"))
    with pytest.raises(InputError, match=r"rate.absent must be float, not null"):
        write_card(tmp_path, CARD.replace("default: 0.5", "default: 0.5, absent: null"))


def test_a_worker_completes_omitted_keys(tmp_path):
    write_card(tmp_path)
    card = find_algorithm(str(tmp_path))
    register(card.origin.digest, card.origin.source)
    plain = card.resolve({"noise": "0", "limit": "null"})
    spec = make_spec(load_suite("classic"), "Pendulum-v1", card, plain, 0, request_of())
    assert spec.hyperparameters == {"rate": 0.5}
    assert spec.variant == "noise=0.0,limit=None"
    assert card_of(spec).completed(spec.hyperparameters) == plain


@pytest.mark.parametrize(
    ("run_id", "document"), published(), ids=lambda each: each if isinstance(each, str) else ""
)
def test_published_runs_keep_their_ids_and_can_be_planned_here(run_id, document):
    spec = RunSpec.model_validate_json(json.dumps(document))
    card = load_algorithm(spec.algo)
    values = card.completed(spec.hyperparameters)
    assert values.keys() == card.hyperparameters.keys()
    settings = request_of(
        budget=spec.budget.name, n_demos=spec.demos and spec.demos.count, pack=spec.pack
    )
    suite, env_id = load_suite(spec.suite), spec.environment.id
    budget = spec.budget
    then = suite.environments[env_id].with_amount(budget.name, budget.unit, budget.amount)
    suite = suite.model_copy(update={"environments": {env_id: then}})
    planned = make_spec(suite, env_id, card, values, spec.seed, settings)
    assert planned.run_id == run_id == spec.run_id
    seeds = range(spec.seed, spec.seed + (spec.pack or 1))  # a pack is trained again as a whole
    pack = [spec.model_copy(update={"seed": seed}) for seed in seeds]
    drawn = sample_runs([PublishedRun(own, object(), None, None) for own in pack], 1, seed=0)
    [again] = [each.run_id for each in drawn.plans[0]]
    assert again in {own.run_id for own in pack}


def hidden(env_id, suite="seals", value="hide"):
    card = load_algorithm("gail")
    values = card.resolve({"disc_absolute_positions": value})
    return make_spec(load_suite(suite), env_id, card, values, 0, request_of())


def test_hidden_positions_are_part_of_a_run_id():
    shown, ant = hidden("seals/Ant-v1", value="show"), hidden("seals/Ant-v1")
    assert "hidden_positions" not in shown.model_dump(mode="json")["environment"]
    assert "disc_absolute_positions" not in shown.hyperparameters
    assert ant.environment.hidden_positions == [0, 1]
    # One of the two is the default.
    assert "" in {shown.variant, ant.variant}
    assert shown.variant != ant.variant
    other = ant.environment.model_copy(update={"hidden_positions": [0]})
    assert (
        len({shown.run_id, ant.run_id, ant.model_copy(update={"environment": other}).run_id}) == 3
    )
    assert hidden("Pendulum-v1", "classic").environment.hidden_positions is None
    assert RunSpec.model_validate_json(ant.model_dump_json()) == ant


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({}, None),
        ({"environment": {"hidden_positions": [1]}}, "hidden positions differ"),
        ({"environment": {"hidden_positions": None}}, "hidden positions differ"),
        ({"hyperparameters": {"target_kl": None}}, "names target_kl, which records omit"),
    ],
)
def test_published_records_must_match_the_cards(changes, what):
    spec = hidden("seals/Ant-v1")
    document = spec.model_dump()
    for name, change in changes.items():
        document[name] |= change
    changed = RunSpec.model_validate(document)
    references = ReferenceScores(random=0.0, expert=1.0, version="1")
    failure = RunFailure.model_construct(references=references)
    run = PublishedRun(changed, None, failure, None)
    findings = Findings()
    check_against_cards([LocatedRun("here", run)], findings)
    told = [each.what for each in findings.problems if each.check in ("suite", "algorithm")]
    assert [what in each for each in told] == [True] * (what is not None)


def test_earlier_defaults_are_checked_against_the_card(tmp_path):
    card = write_card(tmp_path, CARD + "earlier_defaults:\n- {noise: 0, rate: 1}\n- {rate: 2.0}\n")
    before, between = card.earlier_values()
    assert before == {"rate": 1.0, "noise": 0.0, "limit": 2.0}
    assert between == {"rate": 2.0, "noise": 0.1, "limit": 2.0}
    for wrong, message in (
        ("{trick: 1}", "0.trick: no such"),
        ("{rate: x}", "0.rate must"),
    ):
        with pytest.raises(InputError, match=message):
            write_card(tmp_path, f"{CARD}earlier_defaults:\n- {wrong}\n")
