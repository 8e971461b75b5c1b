"""Who answers in runs: hyper-parameters, recorded answers, people, and what they do to training."""

import hashlib
import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from support.preference_pairs import pairs_of

from imitbench.algorithms.preference_comparisons import (
    PreferenceDataset,
    ScriptedTeacher,
    SyntheticGatherer,
)
from imitbench.algorithms.preference_comparisons.answer_queue import answered_pairs
from imitbench.algorithms.preference_comparisons.dataset_storage import (
    pair_digest,
    read_file,
    unpack,
)
from imitbench.bench.learners import cpl
from imitbench.cards.catalog import load_algorithm
from imitbench.data.types import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.experts.lookup import find_expert
from imitbench.policies.storage import load_policy
from imitbench.records.runs import Budget
from imitbench.util.squashed_gaussian import TAIL_WIDTH

SMALL = {
    "preference_comparisons": {
        "n_envs": "2", "n_steps": "100", "n_epochs": "1", "batch_size": "50", "hidden_size": "8",
        "num_iterations": "1", "fragment_length": "5", "reward_epochs": "1", "transfer_steps": "0",
    },
    "pebble": {
        "learning_starts": "20", "exploration_steps": "0", "num_iterations": "1",
        "fragment_length": "5", "reward_epochs": "1", "hidden_size": "8", "ensemble_size": "2",
        "reset_updates": "1",
    },
    "cpl": {"fragment_length": "5", "episodes": "1", "bc_batches": "1", "hidden_size": "8"},
}  # fmt: skip
EPISODE = 20  # steps
AMOUNTS = {"preference_comparisons": 600, "pebble": 60, "cpl": 4}


@pytest.fixture
def ready(set_up):
    def make(name, **overrides):
        expert = load_policy(find_expert("sac-Pendulum-v1")) if name == "cpl" else None
        settings = SMALL[name] | {"total_comparisons": "6"} | overrides
        return set_up(name, demos=[], expert=expert, steps=EPISODE, **settings)

    return make


def train(learner, name):
    amount, points = AMOUNTS[name], []
    budget = Budget(name="quick", unit=load_algorithm(name).budget_unit, amount=amount)
    return learner.train(budget, lambda *point: points.append(point)), points


def gatherer_of(learner):
    return learner._algorithm.preference_gatherer


def test_the_teacher_of_earlier_runs_is_the_default(ready):
    gatherer = gatherer_of(ready("preference_comparisons", temperature="0.5"))
    assert type(gatherer) is SyntheticGatherer
    assert gatherer.temperature == 0.5


def test_teachers_are_chosen_with_their_parameter(ready):
    gatherer = gatherer_of(ready("pebble"))
    assert isinstance(gatherer, ScriptedTeacher)
    assert (gatherer.rationality, gatherer.discount_factor, gatherer.mistake) == (math.inf, 1, 0)
    assert (gatherer.skip, gatherer.equal) == (0, 0)
    settings = {"teacher": "equal", "teacher_parameter": "0.2", "teacher_floor": "-16"}
    gatherer = gatherer_of(ready("pebble", **settings))
    assert (gatherer.equal, gatherer.skip, gatherer.floor) == (0.2, 0, -16.0)
    gatherer = gatherer_of(ready("preference_comparisons", teacher="myopic"))
    assert (gatherer.discount_factor, gatherer.equal) == (0.9, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gatherer": "file"}, "gatherer=file: needs a preference data set; add --set answers="),
        ({"gatherer": "human"}, "gatherer=human: needs a folder"),
        ({"answers": "x"}, "answers=x: synthetic answers have no file"),
        ({"teacher": "oracle", "teacher_parameter": "1"}, "oracle has no parameter"),
        ({"teacher": "myopic", "teacher_parameter": "2"}, r"discount_factor must lie in \[0, 1\]"),
        ({"teacher_parameter": "2"}, "the teacher returns has a temperature instead"),
        ({"gatherer": "file", "answers": "no-such-file"}, "no-such-file: no such file"),
    ],
)
def test_contradictions_are_one_clear_line(ready, settings, message):
    with pytest.raises(InputError, match=message):
        ready("preference_comparisons", **settings)


def recorded(path, count=4, **shape):
    dataset = PreferenceDataset()
    pairs = pairs_of(np.random.default_rng(0), [5] * count, **shape)
    dataset.push(pairs, np.float32([1, 0] * (count // 2)), np.arange(1.0, count + 1))
    dataset.save(path)
    return {
        "gatherer": "file",
        "answers": str(path),
        "answers_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


@pytest.mark.parametrize("name", SMALL)
def test_training_uses_recorded_answers_with_their_weights(ready, tmp_path, name):
    learner = ready(name, **recorded(tmp_path / "answers"))
    train(learner, name)
    if name == "cpl":
        np.testing.assert_allclose(learner.trainer._data.weights, np.arange(1, 5) / 2.5)
    else:
        dataset = learner._algorithm.dataset
        assert dataset.preferences.tolist() == [1, 0, 1, 0]
        assert dataset.weights.tolist() == [1, 2, 3, 4]


def test_recorded_answers_must_be_named_by_their_content(ready, tmp_path):
    settings = recorded(tmp_path / "answers")
    digest = settings.pop("answers_sha256")
    with pytest.raises(InputError, match=f"add --set answers_sha256={digest}"):
        ready("pebble", **settings)
    with pytest.raises(InputError, match=rf"its SHA-256 is {digest}, not {64 * '0'}; give"):
        ready("pebble", **settings, answers_sha256=64 * "0")


def test_recorded_answers_of_another_environment_are_refused(set_up, tmp_path):
    settings = SMALL["pebble"] | recorded(tmp_path / "answers")
    message = re.escape("have shapes ((3,), (1,)), but seals/CartPole-v0 has ((4,), ())")
    with pytest.raises(InputError, match=message):
        set_up("pebble", env="seals/CartPole-v0", demos=[], **settings)


def test_an_empty_data_set_is_refused(ready, tmp_path):
    with pytest.raises(InputError, match="has no comparisons"):
        ready("pebble", **recorded(tmp_path / "answers", 0))


def people_answer(folder, asked):
    """Answers all open pairs by the true reward, except the first, which is skipped."""
    lines = []
    for path in folder.glob("pairs-*"):
        content = unpack(read_file(path))
        for pair in zip(content.fragments1, content.fragments2, strict=True):
            better = float(pair[0].rews.sum() > pair[1].rews.sum())
            digest = pair_digest(*pair)
            said = better if asked or lines else None
            asked.append(digest)
            lines.append(json.dumps({"pair": digest, "preference": said, "annotator": "ada"}))
    with (folder / "answers.jsonl").open("a") as stream:
        stream.writelines(line + "\n" for line in lines)


def test_people_answer_through_a_folder_and_a_file_repeats_them(ready, tmp_path, monkeypatch):
    folder, asked = tmp_path / "queue", []
    monkeypatch.setattr("time.sleep", lambda _: people_answer(folder, asked))
    learner = ready("cpl", gatherer="human", answers=str(folder))
    assert len(set(asked)) == 6
    assert len(learner.trainer._data) == 5
    answered_pairs(folder).save(tmp_path / "set")
    digest = hashlib.sha256((tmp_path / "set").read_bytes()).hexdigest()
    again = ready("cpl", gatherer="file", answers=str(tmp_path / "set"), answers_sha256=digest)
    np.testing.assert_equal(again.trainer._data.preferences, learner.trainer._data.preferences)
    # Answers that are there are not asked for again.
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("waits for answers"))
    ready("cpl", gatherer="human", answers=str(folder))


@pytest.mark.parametrize("name", ["preference_comparisons", "pebble"])
def test_a_training_waits_for_people_in_every_round(ready, tmp_path, monkeypatch, name):
    folder, asked = tmp_path / "queue", []
    monkeypatch.setattr("time.sleep", lambda _: people_answer(folder, asked))
    learner = ready(name, gatherer="human", answers=str(folder))
    train(learner, name)
    assert len(learner._algorithm.dataset) == 5  # one of six was skipped


def test_pebble_spends_its_budget_exactly_and_measures_its_reward(ready):
    learner = ready("pebble", total_comparisons="8")
    spent, points = train(learner, "pebble")
    assert spent == 60
    assert [step for step, _ in points] == [20, 40, 60]
    assert {"reward/loss", "reward/held_out_accuracy"} < points[-1][1].keys()
    assert learner._trainer.began
    assert {"reward_correlation", "preference_accuracy"} < set(learner.measures())


def test_a_budget_below_exploration_is_reported(ready):
    learner = ready("pebble", exploration_steps="400")
    with pytest.raises(ValueError, match=r"budget of 60 .* exploration takes 420 of them"):
        train(learner, "pebble")


def test_cpl_compares_fragments_of_the_experts_spoilt_episodes(ready):
    learner = ready("cpl", episodes="2")
    spent, points = train(learner, "cpl")
    assert spent == 0  # the episodes are data that is there before training
    lengths = [len(fragment) for pair in learner.trainer._data.pairs for fragment in pair]
    assert set(lengths) == {5}
    assert set(points[0][1]) == {"bc_loss"}
    assert {"cpl_loss", "accuracy"} < points[-1][1].keys()


def test_comparisons_that_are_all_skipped_are_reported(ready):
    settings = {"teacher": "skipping", "teacher_parameter": "50"}
    with pytest.raises(InputError, match="all 6 comparisons were skipped; choose another"):
        ready("cpl", **settings)


def test_a_round_whose_comparisons_are_all_skipped_goes_on(ready):
    settings = {"teacher": "skipping", "teacher_parameter": "50"}
    learner = ready("pebble", **settings)
    spent, points = train(learner, "pebble")
    assert spent == 60
    assert len(learner._algorithm.dataset) == 0
    assert not [name for _, metrics in points for name in metrics if name.startswith("reward/")]


def test_teachers_may_compare_by_the_experts_log_probabilities(ready):
    first, second = (ready("cpl", labels=labels).trainer._data for labels in ("return", "regret"))
    expert = load_policy(find_expert("sac-Pendulum-v1"))
    pair = second.pairs[0]
    np.testing.assert_array_equal(pair[0].obs, first.pairs[0][0].obs)
    inside = 0
    for fragment in pair:
        mean, log_std, _ = expert.actor.get_action_dist_params(th.from_numpy(fragment.obs[:-1]))
        acts = th.from_numpy(fragment.acts / 2)
        raw = th.atanh(acts.clamp(-1 + 1e-6, 1 - 1e-6))
        normal = th.distributions.Normal(mean, log_std.exp()).log_prob(raw)
        densities = (normal - th.log(2 * (1 - th.tanh(raw) ** 2)))[:, 0].detach().numpy()
        within = acts[:, 0].numpy() < 1 - TAIL_WIDTH  # near a bound, densities are taken together
        within &= acts[:, 0].numpy() > -1 + TAIL_WIDTH
        np.testing.assert_allclose(fragment.rews[within], densities[within], atol=0.05)
        inside += within.sum()
    assert inside > 2
    assert second.preferences[0] == (pair[0].rews.sum() > pair[1].rews.sum())


def test_an_expert_that_aims_beyond_a_bound_does_not_regret_its_own_actions():
    """They are clipped, and the normal density of what reaches the bound is tiny."""
    space = spaces.Box(-1, 1, (1,), np.float32)
    expert = ActorCriticPolicy(
        spaces.Box(-9, 9, (1,), np.float32), space, lambda _: 1e-3,
        net_arch=[], log_std_init=math.log(0.3),
    )  # fmt: skip
    with th.no_grad():
        expert.action_net.weight.fill_(3.0)
        expert.action_net.bias.fill_(0.0)
    task = SimpleNamespace(expert=expert, action_space=space)

    def labels(state, acts):
        obs = np.full((len(acts) + 1, 1), state, np.float32)
        episode = TrajectoryWithRew(
            obs, np.float32(acts)[:, None], None, False, np.zeros(len(acts))
        )
        return cpl._with_advantages(task, episode).rews

    own, other = labels(1.0, [1.0, 0.5])
    assert own > 0 > other
    assert own == pytest.approx(labels(2.0, [1.0])[0], abs=1e-3)  # almost certain in both states
