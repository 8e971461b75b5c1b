"""Regimes may hide actions and offer trajectories of mixed quality; no learner sees more."""

import dataclasses
import json
import shutil

import gymnasium as gym
import numpy as np
import pytest
import yaml
from pydantic import ValidationError
from support.plans import make_plan
from support.plugins import write_plugin

from imitbench.bench import implementation, training_setup
from imitbench.bench.artifacts import demos_of_run
from imitbench.bench.learners.bc import BCLearner
from imitbench.bench.plan import DemoChoice, plan_request
from imitbench.bench.request import plan_requests
from imitbench.bench.supplement import supplement_of_run
from imitbench.bench.training import seed_generators, set_up, set_up_pack
from imitbench.bench.training_setup import TrainingConfig, TrainingInputs
from imitbench.cards.algorithm import Needs
from imitbench.cards.catalog import load_algorithm, load_suite, suite_directory, suite_names
from imitbench.cards.demonstrations import Regime
from imitbench.cards.suite import SuiteCard, regime_mismatch
from imitbench.conformance.test_bed import MethodUnderTest, practice_test_bed
from imitbench.data.demonstrations import read_demonstrations, write_demonstrations
from imitbench.errors import InputError
from imitbench.records.runs import DemoSpec
from imitbench.store.artifact_files import content_files
from imitbench.store.comparability import Conditions
from imitbench.store.sweep_file import SweepRequest
from imitbench.util.files import digest_files

ROOT = suite_directory("classic")
MIXED = {"n_demos": 1, "mixture": {"medium": 4, "random": 6}}
HIDDEN = {"n_demos": 1, "demo_every": 20, "actions": "hidden"}

KEEPS = """
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def setup(self, task, demos, rng, device):
        self.given = task, demos
"""


def card_with(**needs):
    card = load_algorithm("bc")
    return card.model_copy(update={"needs": card.needs.model_copy(update=needs)})


MIXER = card_with(supplement=True)
RANKER = card_with(supplement=True, ranking=True)
OBSERVER = card_with(actions=False)


def runs_of(card="bc", seeds=(0,), env="Pendulum-v1", **settings):
    return list(make_plan([card], "classic", env, list(seeds), **settings))


def drawn(run, *, ranked=False):
    return supplement_of_run(run, ROOT, ranked=ranked)


def rows_of(name, trajectories):
    """Returns the rows of the set of Pendulum that trajectories are, by their observations."""
    whole = read_demonstrations(ROOT / "demos" / f"{name}-Pendulum-v1")
    known = {row.obs.tobytes(): index for index, row in enumerate(whole)}
    return [known[each.obs.tobytes()] for each in trajectories if each.obs.tobytes() in known]


def test_a_mixture_is_part_of_what_a_run_is():
    [plain], [mixed] = runs_of(n_demos=1), runs_of(**MIXED)
    assert plain.run_id != mixed.run_id
    assert "supplement" not in plain.model_dump()["demos"]
    assert "actions" not in plain.model_dump()["demos"]
    assert mixed.demos.mixture == {"medium": 4, "random": 6}
    assert DemoSpec.model_validate_json(mixed.demos.model_dump_json()) == mixed.demos
    sets = {part.name: part for part in mixed.demos.supplement}
    assert (sets["medium"].available, sets["random"].available) == (10, 20)
    assert sets["random"].repo == "random-Pendulum-v1"


def test_seeds_of_a_mixture_are_one_setting_and_share_no_draw():
    one, two = runs_of(seeds=(3, 4), **MIXED)
    assert one.setting == two.setting
    assert (one.demos.subsample_seed, two.demos.subsample_seed) == (3, 4)
    first, second = (drawn(run).trajectories for run in (one, two))
    assert rows_of("random", first) != rows_of("random", second)
    again = drawn(one).trajectories
    assert all(
        a.obs is not b.obs and (a.obs == b.obs).all() for a, b in zip(first, again, strict=True)
    )


def test_the_supplement_has_the_stated_numbers_in_random_order_without_rewards():
    [run] = runs_of(seeds=[5], **MIXED)
    found = drawn(run)
    assert found.ranks is None
    assert len(rows_of("medium", found.trajectories)) == 4
    assert len(set(rows_of("random", found.trajectories))) == 6
    kinds = [bool(rows_of("medium", [each])) for each in found.trajectories]
    assert kinds not in (sorted(kinds), sorted(kinds, reverse=True))
    for each in found.trajectories:
        assert np.isnan(each.rews).all()
        assert each.infos is None
        assert each.acts.shape == (200, 1)


def test_a_set_is_drawn_alike_whatever_else_a_mixture_has():
    [both], [alone] = runs_of(**MIXED), runs_of(n_demos=1, mixture={"random": 6})
    rows = [sorted(rows_of("random", drawn(run).trajectories)) for run in (both, alone)]
    assert rows[0] == rows[1]


def test_ranks_follow_the_hidden_returns():
    [run] = runs_of(RANKER, **MIXED)
    found = drawn(run, ranked=True)
    whole = {
        each.obs.tobytes(): each.rews.sum()
        for name in ("medium", "random")
        for each in read_demonstrations(ROOT / "demos" / f"{name}-Pendulum-v1")
    }
    returns = np.array([whole[each.obs.tobytes()] for each in found.trajectories])
    assert found.ranks.dtype == np.int64
    assert sorted(found.ranks) == list(range(10))
    assert (np.argsort(found.ranks) == np.argsort(returns)).all()


def test_hidden_actions_leave_observations_and_next_observations():
    [shown], [hidden] = runs_of(n_demos=1, demo_every=20), runs_of(OBSERVER, **HIDDEN)
    before, after = demos_of_run(shown, ROOT), demos_of_run(hidden, ROOT)
    assert hidden.model_dump()["demos"]["actions"] == "hidden"
    for one, other in zip(before, after, strict=True):
        assert one.obs.tobytes() == other.obs.tobytes()
        assert one.start == other.start
        assert (other.acts.shape, other.acts.dtype) == ((1, 0), np.float32)
        assert other.infos is None


def test_the_actions_of_a_supplement_are_hidden_too():
    [run] = runs_of(card_with(actions=False, supplement=True), **MIXED, actions="hidden")
    assert {each.acts.shape for each in drawn(run).trajectories} == {(200, 0)}


def numbers_in(value, found):
    """Collects all numbers that can be reached from a value."""
    if isinstance(value, np.ndarray):
        found += [float(each) for each in value.ravel() if each is not None]
    elif isinstance(value, float | np.floating):
        found.append(float(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            numbers_in(getattr(value, field.name), found)
    elif isinstance(value, dict):
        for each in value.values():
            numbers_in(each, found)
    elif isinstance(value, list | tuple):
        for each in value:
            numbers_in(each, found)
    return found


def planted_suite(folder):
    """Writes a suite with Pendulum whose actions, rewards and infos are canaries."""
    document = yaml.safe_load((ROOT / "suite.yaml").read_text())
    card = document["environments"]["Pendulum-v1"]
    for repo in (card["demos"]["repo"], *(each["repo"] for each in card["sets"].values())):
        marked = [
            dataclasses.replace(
                each,
                acts=np.full_like(each.acts, 0.123456),
                rews=np.full_like(each.rews, -777.25 - index),
                infos=np.array([{"action": 0.123456, "reward": -777.25}] * len(each)),
            )
            for index, each in enumerate(read_demonstrations(ROOT / "demos" / repo))
        ]
        write_demonstrations(folder / "demos" / repo, marked)
    shutil.copytree(ROOT / "experts" / "sac-Pendulum-v1", folder / "experts" / "sac-Pendulum-v1")
    document |= {"name": folder.name, "environments": {"Pendulum-v1": card}}
    (folder / "suite.yaml").write_text(yaml.safe_dump(document))
    return folder


NEEDS = ", actions: false, supplement: true, ranking: true"


def test_a_plugin_cannot_get_at_hidden_actions_or_rewards(tmp_path):
    suite = planted_suite(tmp_path / "planted")
    plugin = write_plugin(tmp_path / "mine", KEEPS, needs=NEEDS)
    request = SweepRequest(
        algorithms=[str(plugin)], suite=str(suite), seeds=[0], budget="quick", folder=".",
        **MIXED, actions="hidden",
    )  # fmt: skip
    plan = plan_request(request)
    [run] = plan
    inputs = TrainingInputs.of(run, suite)
    config = TrainingConfig.of(run)
    env = gym.make("Pendulum-v1")
    seed_generators(config)
    learner = set_up(config, inputs, env.observation_space, env.action_space)
    task, demos = learner.given
    reached = np.array(numbers_in([list(demos), task.supplement], []))
    assert len(reached) > 200 * 11
    assert not np.isclose(reached, 0.123456, atol=1e-5).any()
    assert not (reached < -700).any()
    assert task.supplement.ranks is not None
    assert task.expert is None


def test_only_methods_that_ask_get_the_supplement():
    [run] = runs_of("bc", **MIXED)
    assert TrainingInputs.of(run, ROOT).supplement is None
    assert len(demos_of_run(run, ROOT)) == 1


def test_each_seed_of_a_pack_gets_its_own_supplement(monkeypatch):
    members = [run.model_copy(update={"pack": 2}) for run in runs_of("gail", seeds=(0, 1), **MIXED)]
    monkeypatch.setattr(training_setup, "card_of", lambda _: MIXER)
    inputs = [TrainingInputs.of(run, ROOT) for run in members]
    made = []
    learner_class = type(implementation.make_learner(members[0]))
    monkeypatch.setattr(learner_class, "setup_pack", lambda _, tasks, *__: made.extend(tasks))
    env = gym.make("Pendulum-v1")
    set_up_pack(
        [TrainingConfig.of(run) for run in members], inputs, env.observation_space, env.action_space
    )
    first, second = (rows_of("random", task.supplement.trajectories) for task in made)
    assert first != second


@pytest.mark.parametrize("ranked", [False, True])
def test_checks_of_methods_give_them_what_they_ask_for(ranked):
    bed = practice_test_bed("box")
    asks = card_with(actions=False, supplement=True, ranking=ranked)
    given = []
    subject = MethodUnderTest(asks, asks.resolve({}), 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BCLearner, "setup", lambda _, *arguments: given.extend(arguments))
        subject.set_up(bed, TrainingConfig.of(runs_of()[0]))
    task, demos, *_ = given
    assert {each.acts.shape[1:] for each in [*demos, *task.supplement.trajectories]} == {(0,)}
    assert all(np.isnan(each.rews).all() for each in task.supplement.trajectories)
    assert (task.supplement.ranks is not None) == ranked


@pytest.mark.parametrize(
    ("card", "regime", "why"),
    [
        (MIXER, Regime(), "needs trajectories of mixed quality, too; name a regime with a mixture"),
        (MIXER, Regime(**MIXED), None),
        (load_algorithm("bc"), Regime(**MIXED), None),
        (
            load_algorithm("bc"),
            Regime(**HIDDEN),
            "needs the demonstrator's actions, which this regime hides",
        ),
        (OBSERVER, Regime(**HIDDEN), None),
        (OBSERVER, Regime(), None),
        (load_algorithm("random"), Regime(**HIDDEN), None),
    ],
)
def test_methods_say_which_regimes_they_do_not_fit(card, regime, why):
    assert regime_mismatch(card, regime) == why


def requested(algorithms, regime, env="Pendulum-v1", **settings):
    request = SweepRequest(
        algorithms=algorithms, suite="classic", environment=env, seeds=[0], folder=".", **settings
    )
    return plan_requests([request], DemoChoice.parse(None, None, regime))


def test_a_method_without_actions_is_left_out_in_one_line():
    [plan] = requested(["bc", "random"], "few-no-actions")
    assert {run.algo for run in plan} == {"random"}
    [pair] = plan.not_applicable
    assert pair.why == "needs the demonstrator's actions, which this regime hides"
    with pytest.raises(InputError, match=r"no method fits any environment .*this regime hides"):
        requested(["bc"], "few-no-actions")


def test_an_environment_without_a_set_is_left_out_in_one_line():
    [plan] = requested(["bc"], "mixed", env=None)
    missing = {pair.env: pair.why for pair in plan.not_applicable}
    assert missing["seals/MountainCar-v0"] == (
        "the suite card names no set medium of this environment; Accepted: random"
    )
    with pytest.raises(InputError, match="the suite card names no set medium"):
        requested(["bc"], "mixed", env="seals/MountainCar-v0")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("mediun", "names no set mediun of this environment; did you mean 'medium'"),
        ("expert", "the demonstrations are the expert's part of a mixture; --n-demos says how"),
    ],
)
def test_names_of_no_set_are_explained(name, why):
    regime = Regime(n_demos=1, mixture={name: 1})
    assert why in regime.why_impossible(load_suite("classic").environments["Pendulum-v1"].sets)


def test_a_source_without_sets_is_refused():
    with pytest.raises(InputError, match="--source hub: has demonstrations only"):
        requested(["bc"], "mixed", source="hub")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda rows: rows[:3], "set random has 3 trajectories, fewer than 6"),
        (
            lambda rows: [dataclasses.replace(each, obs=each.obs[:, :2]) for each in rows],
            r"its observations have shape and type \[2\] numbers, those of the .* \[3\]",
        ),
        (
            lambda rows: [dataclasses.replace(each, acts=np.zeros(200, np.int64)) for each in rows],
            r"its actions have shape and type \[\] integers",
        ),
    ],
)
def test_sets_that_do_not_fit_are_refused(tmp_path, changed, message):
    for repo in ("sac-Pendulum-v1", "medium-Pendulum-v1", "random-Pendulum-v1"):
        rows = read_demonstrations(ROOT / "demos" / repo)
        kept = changed(rows) if repo.startswith("random") else rows
        write_demonstrations(tmp_path / "demos" / repo, kept)
    with pytest.raises(InputError, match=message):
        runs_of("bc", source=f"path:{tmp_path}", **MIXED)


def test_a_ranking_with_ties_only_is_refused():
    settings = {"n_demos": 1, "mixture": {"random": 5}}
    with pytest.raises(InputError, match=r"mixture random:5 have the same return.*no ranking"):
        runs_of(RANKER, env="seals/MountainCar-v0", **settings)
    assert runs_of(MIXER, env="seals/MountainCar-v0", **settings)
    with pytest.raises(InputError, match="no ranking"):
        runs_of(RANKER, n_demos=1, mixture={"random": 1})


def test_sets_without_rewards_have_no_ranking(tmp_path):
    for repo in ("sac-Pendulum-v1", "medium-Pendulum-v1", "random-Pendulum-v1"):
        rows = read_demonstrations(ROOT / "demos" / repo)
        bare = [dataclasses.replace(each, rews=np.full(200, np.nan)) for each in rows]
        write_demonstrations(tmp_path / "demos" / repo, bare)
    with pytest.raises(InputError, match="set medium has no rewards"):
        runs_of(RANKER, source=f"path:{tmp_path}", **MIXED)


def test_regimes_are_conditions_in_words():
    [hidden], [mixed] = runs_of(OBSERVER, **HIDDEN), runs_of(**MIXED)
    words = [Conditions.of_spec(run).demonstrations for run in (hidden, mixed)]
    assert words == [
        "1 demonstration, one step in 20, no actions",
        "1 demonstration, 4 medium, 6 random",
    ]
    assert [str(Regime(**HIDDEN)), str(Regime(**MIXED))] == words
    [plain], [thin] = runs_of(n_demos=1), runs_of(n_demos=1, demo_every=20)
    for one in (hidden, mixed):
        for other in (plain, thin):
            assert not Conditions.of_spec(one).compatible(Conditions.of_spec(other))
            assert not Conditions.of_spec(one).is_part_of(Conditions.of_spec(other))
    [free] = runs_of("random", **MIXED)
    assert Conditions.of_spec(free).is_part_of(Conditions.of_spec(mixed))


def suite_with(regime, **changes):
    document = yaml.safe_load((ROOT / "suite.yaml").read_text())
    document["regimes"]["new"] = regime
    document["environments"]["Pendulum-v1"]["sets"]["random"] |= changes
    return SuiteCard.model_validate(document)


@pytest.mark.parametrize(
    ("regime", "changes", "message"),
    [
        ({"mixture": {"rnadom": 3}}, {}, "no environment has this set; did you mean 'random'"),
        ({"mixture": {"random": 21}}, {}, "has 20 trajectories, fewer than 21"),
        ({"mixture": {"random": 0}}, {}, "greater than or equal to 1"),
        ({"n_demos": 0, "mixture": {"random": 3}}, {}, "greater than or equal to 1"),
        ({"actions": "gone"}, {}, "'shown' or 'hidden'"),
        ({}, {"env_steps": 10}, "belongs to policy checkpoint"),
    ],
)
def test_wrong_cards_are_refused(regime, changes, message):
    with pytest.raises(ValidationError, match=message):
        suite_with(regime, **changes)


def test_needs_that_exclude_each_other_are_refused():
    with pytest.raises(ValidationError, match="a mixture has an expert part"):
        Needs(demos=False, expert=False, action_spaces=["box"], supplement=True)


def test_requests_keep_their_bytes_unless_they_have_a_mixture():
    request = SweepRequest(algorithms=["bc"], suite="classic", seeds=[0], folder=".")
    assert {"actions", "mixture"}.isdisjoint(json.loads(request.model_dump_json()))
    mixed = request.model_copy(update=Regime(**MIXED, actions="hidden").recorded)
    again = SweepRequest.model_validate_json(mixed.model_dump_json())
    assert again.regime == Regime(**MIXED, actions="hidden")


@pytest.mark.parametrize("suite", suite_names())
def test_the_returns_on_the_cards_are_those_of_the_sets(suite):
    for env_id, card in load_suite(suite).environments.items():
        for name, recipe in card.sets.items():
            if not recipe.bundled:  # see test_collected_sets.py
                continue
            folder = suite_directory(recipe.home or suite) / "demos" / recipe.repo
            rows = read_demonstrations(folder)
            returns = [float(each.rews.sum()) for each in rows]
            assert len(rows) == recipe.trajectories == recipe.returns.episodes, (env_id, name)
            assert recipe.returns.mean == pytest.approx(np.mean(returns), abs=1e-3)
            assert recipe.returns.std == pytest.approx(np.std(returns), abs=1e-3)
            files = content_files("dataset", folder, recipe.repo)
            assert digest_files(folder, files).startswith(recipe.returns.revision)
