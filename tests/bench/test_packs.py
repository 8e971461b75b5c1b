"""Seeds that are trained together as one network have the runs that they have alone."""

import functools
import itertools
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch as th
from stable_baselines3.common.monitor import Monitor
from support.evaluation import short_evaluation, short_training
from torch.nn.utils import parameters_to_vector

from imitbench.bench.curve import EpisodeLog, SeedEpisodes
from imitbench.bench.environments import make_packed_environments
from imitbench.bench.implementation import learner_class
from imitbench.bench.job import Job
from imitbench.bench.learner import PackedLearner, Task
from imitbench.bench.learners.preference_comparisons import PreferenceComparisonsLearner
from imitbench.bench.stopping import RunStoppedError, StopRequest
from imitbench.bench.sweep import _grouped
from imitbench.bench.worker import run_job
from imitbench.bench.worker_death import JobWorker
from imitbench.cards.catalog import algorithm_names, load_algorithm, suite_directory
from imitbench.errors import InputError
from imitbench.experts.lookup import find_environment
from imitbench.records.runs import ReferenceScores
from imitbench.rewards.storage import load_reward_net
from imitbench.store.run_dir import RunDirectory
from imitbench.util.state_file import load_state

SMALL = {
    "n_envs": "8",
    "learning_starts": "80",
    "steps_per_update": "200",
    "batch_size": "8",
    "hidden_size": "8",
    "disc_hidden_size": "8",
    "buffer_size": "20000",
}
ON_POLICY = {"n_envs": "2", "n_steps": "100", "n_epochs": "2", "hidden_size": "8"}
ADVERSARIAL = ON_POLICY | {"demo_batch_size": "64", "n_disc_updates_per_round": "2"}
SETTINGS = {
    "dac": SMALL,
    "gail": ADVERSARIAL | {"target_kl": "0.01"},
    # Options that draw random numbers before and during training.
    "airl": ADVERSARIAL
    | {
        "log_std_source": "expert",
        "warm_start_batches": "20",
        "gradient_penalty": "1.0",
        "disc_history_share": "0.5",
        "reward_scaling": "running",
    },
    # Its reward has a state of its own: the time in each episode.
    "density": ON_POLICY | {"is_stationary": "false", "reward_scaling": "returns"},
    "ppo_true_reward": ON_POLICY,
    # Each seed also clones, and acts with noise; the rest is 6 rounds.
    "drex": ON_POLICY | {"bc_batches": "20", "pairs": "50", "noise_share": "0.4"},
    # Each seed also explores, and trains another policy on its reward.
    "preference_comparisons": ON_POLICY
    | {
        "total_comparisons": "20",
        "num_iterations": "3",
        "reward_epochs": "1",
        "exploration_frac": "0.1",
        "transfer_steps": "600",
    },
}
WITHOUT_REWARD = ("density", "ppo_true_reward")  # with these settings
METRICS = {  # of the last point of a curve, besides those of episodes
    "dac": "discriminator/accuracy",
    "gail": "discriminator/accuracy",
    "airl": "discriminator/accuracy",
    "density": "rollout/log_density_mean",
    "ppo_true_reward": "step",
    "drex": "rollout/learned_return_mean",
    "preference_comparisons": "reward/accuracy",
}


@pytest.fixture(scope="module", autouse=True)
def _short_runs():
    with short_evaluation(), short_training(env_steps=4000):
        yield


def planned(plan_of, name, seeds, **options):
    # Rounds of preference comparisons are long.
    amount = 4000 if name == "preference_comparisons" else 2000
    with short_training(env_steps=amount):
        return plan_of([name], seeds=seeds, overrides=SETTINGS[name], **options)


def packs_of(plan_of, seeds=range(4), pack=2, name="dac"):
    return planned(plan_of, name, seeds, pack=pack)


@pytest.fixture
def pack_of(plan_of):
    return functools.partial(packs_of, plan_of)


def plan_name(plan):
    return next(iter(plan)).algo


def directories(plan, out):
    return [RunDirectory.of(out, spec) for spec in plan]


def episodes(plan, out):
    return [
        pq.read_table(each.path / "episodes.parquet").to_pandas().raw_return.to_numpy()
        for each in directories(plan, out)
    ]


def curves(plan, out):
    return [(each.path / "metrics.jsonl").read_text() for each in directories(plan, out)]


def same(one, other):
    return all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


@pytest.mark.parametrize("name", algorithm_names())
def test_cards_say_which_methods_pack(name):
    card = load_algorithm(name)
    found = learner_class(card.implementation, None, name)
    assert card.packs == issubclass(found, PackedLearner)


@pytest.fixture(scope="module", params=SETTINGS)
def trained(request, plan_of, sweep, tmp_path_factory):
    """A pack of two seeds, and with DAC another one, trained once for all tests."""
    out = tmp_path_factory.mktemp("packs")
    seeds = range(4 if request.param == "dac" else 2)
    plan = packs_of(plan_of, seeds, name=request.param)
    outcome = sweep(plan, out)
    assert (outcome.done, outcome.failed, outcome.left) == (len(seeds), [], 0)
    return plan, out


def test_every_seed_of_a_pack_has_a_complete_run_of_its_own(trained):
    plan, out = trained
    returns = episodes(plan, out)
    assert not any(np.array_equal(returns[0], each) for each in returns[1:])
    for spec, directory in zip(plan, directories(plan, out), strict=True):
        result = directory.read_result()
        assert result.env_steps == spec.budget.amount
        assert not directory.checkpoints.exists()
    learned = curves(plan, out)
    assert len(set(learned)) == len(returns)
    for curve in learned:
        assert len(curve.splitlines()) >= 4
        assert METRICS[plan_name(plan)] in curve.splitlines()[-1]
        assert "rollout/return_mean" in curve
    rewards = [each.reward for each in directories(plan, out) if each.reward.exists()]
    assert len(rewards) == (0 if plan_name(plan) in WITHOUT_REWARD else len(returns))
    stored = [parameters_to_vector(load_reward_net(each).parameters()) for each in rewards]
    assert not any(th.equal(*pair) for pair in itertools.combinations(stored, 2))
    first, second, *_ = directories(plan, out)
    assert f"see the log of {first.path.name}" in second.log.read_text()


def test_the_size_of_the_pack_is_part_of_the_identity(pack_of, plan_of):
    alone = plan_of(["dac"], seeds=[0, 1, 2, 3], overrides=SMALL)
    ids = [{spec.run_id for spec in plan} for plan in (alone, pack_of(), pack_of(pack=4))]
    assert len(set.union(*ids)) == 12
    assert {spec.variant.endswith("pack=2") for spec in pack_of()} == {True}
    assert "pack" not in next(iter(alone)).model_dump(mode="json")


# One method with a replay buffer, and one with rollouts; packs of both resume bit for bit.
@pytest.mark.parametrize("trained", ["dac", "gail"], indirect=True)
def test_a_missing_seed_is_trained_with_its_pack_and_gives_the_same(tmp_path, trained, sweep):
    plan, out = trained
    shutil.copytree(out, tmp_path, dirs_exist_ok=True)
    before = episodes(plan, tmp_path)
    kept, missing, *others = directories(plan, tmp_path)
    stamps = [each.outcome_stamp() for each in (kept, *others)]
    shutil.rmtree(missing.path)
    outcome = sweep(plan, tmp_path)
    assert (outcome.already_done, outcome.done) == (len(before) - 1, 1)
    assert same(episodes(plan, tmp_path), before)
    assert [each.outcome_stamp() for each in (kept, *others)] == stamps


def points(directory):
    curve = (directory.path / "metrics.jsonl").read_text()
    return [json.loads(line) for line in curve.splitlines()]


@pytest.mark.parametrize("trained", [name for name in SETTINGS if name != "dac"], indirect=True)
def test_a_seed_learns_the_same_as_alone_at_first(tmp_path, plan_of, sweep, trained):
    plan, out = trained
    name = plan_name(plan)
    alone = planned(plan_of, name, [1])
    sweep(alone, tmp_path)
    (_, mine), [expected] = directories(plan, out), directories(alone, tmp_path)
    for own, due in zip(points(mine)[:2], points(expected)[:2], strict=True):
        assert own == pytest.approx(due, rel=1e-3)
    assert len(points(mine)) == len(points(expected))
    measured, due = (each.read_result().measures for each in (mine, expected))
    assert measured.keys() == due.keys()
    assert ("transfer_return" in measured) == (name == "preference_comparisons")
    assert mine.reward.exists() == expected.reward.exists() == (name not in WITHOUT_REWARD)
    if mine.reward.exists():
        nets = [load_reward_net(each.reward).state_dict() for each in (mine, expected)]
        assert nets[0].keys() == nets[1].keys()


@pytest.fixture
def job_of(tmp_path):
    def make(plan, out, **given):
        runs = list(plan)
        return Job(
            **{
                "out": str(out),
                "source_root": str(suite_directory("classic")),
                "runs": runs,
                "references": ReferenceScores(random=0.0, expert=1.0, version="1"),
                "command": "imitbench run",
            }
            | given
        )

    return make


class StopAfter(StopRequest):
    """Requests a stop at the n-th check."""

    def __init__(self, checks):
        super().__init__()
        self.left = checks

    def check(self, grace_s=0.0):
        self.left -= 1
        if not self.left:
            raise RunStoppedError


def test_an_interrupted_pack_continues_bit_for_bit(tmp_path, trained, plan_of, job_of):
    name = plan_name(trained[0])
    plan = packs_of(plan_of, seeds=[0, 1], name=name)
    outs = [trained[1], tmp_path / "parts"]
    job = job_of(plan, outs[1])
    with pytest.raises(RunStoppedError):
        run_job(job, StopAfter(20 if name == "dac" else 8))
    first = directories(plan, outs[1])[0]
    (checkpoint,) = first.checkpoints.glob("*.state")
    assert load_state(checkpoint)["learner"]["curves"][0]
    run_job(job)
    whole, parts = ([episodes(plan, out), curves(plan, out)] for out in outs)
    assert same(whole[0], parts[0])
    assert whole[1] == parts[1]


def test_a_failure_is_that_of_every_seed(tmp_path, pack_of, job_of):
    plan = pack_of(seeds=[0, 1])
    run_job(job_of(plan, tmp_path, source_root=str(tmp_path / "nowhere"), retries=1))
    for directory in directories(plan, tmp_path):
        assert directory.read_failure().phase == "load"
        assert directory.last_status().attempt == 2


def test_a_crash_is_recorded_for_every_seed(tmp_path, pack_of, job_of):
    plan = pack_of(seeds=[0, 1])
    path = job_of(plan, tmp_path).write()
    assert not JobWorker().after_death(path, "worker was killed by SIGKILL")
    for directory in directories(plan, tmp_path):
        assert directory.read_failure().phase == "worker"


@pytest.mark.parametrize(
    ("algorithms", "seeds", "pack", "said"),
    [
        (
            ["sqil", "bc"],
            range(4),
            2,
            "sqil, bc cannot train several seeds as one network",
        ),
        (["dac"], range(4), 3, "3 does not divide the number of seeds, 4; use --pack 2 or 4"),
        (["dac"], range(4), 8, "use --pack 2 or 4"),
        (["dac"], range(1), 2, "2 does not divide the number of seeds, 1; use more seeds"),
    ],
)
def test_packs_that_cannot_be_made_are_refused(plan_of, algorithms, seeds, pack, said):
    with pytest.raises(InputError, match=said):
        plan_of(algorithms, seeds=seeds, pack=pack)


def test_other_methods_of_the_same_command_train_each_seed_alone(plan_of):
    packs = {run.algo: run.pack for run in plan_of(["dac", "bc"], seeds=range(4), pack=2)}
    assert packs == {"dac": 2, "bc": None}


def test_only_packs_are_trained_with_their_other_seeds(plan_of):
    plan = plan_of(["dac", "bc"], seeds=range(4), pack=2)
    left = [run for run in plan if run.seed in (1, 2)]
    groups = [
        (runs[0].algo, [run.seed for run in runs], [run.seed for run in companions])
        for runs, companions in _grouped(plan, left, 2)
    ]
    assert groups == [
        ("dac", [1], [0]),
        ("dac", [2], [3]),
        ("bc", [1], []),
        ("bc", [2], []),
    ]


def test_a_pack_without_the_faster_ppo_is_refused(tmp_path, plan_of, job_of):
    overrides = ON_POLICY | {"lean_ppo": "false"}
    plan = plan_of(["gail"], seeds=[0, 1], pack=2, overrides=overrides)
    run_job(job_of(plan, tmp_path))
    for directory in directories(plan, tmp_path):
        failure = directory.read_failure()
        assert failure.phase == "setup"
        assert "it needs the lean path, but it was switched off; remove" in failure.message
        assert "or omit --pack" in failure.message


def test_transferred_policies_are_those_of_each_seed_alone():
    pendulum = find_environment("Pendulum-v1")
    spaces = make_packed_environments(pendulum, 1, [0])
    options = load_algorithm("preference_comparisons").resolve(
        ON_POLICY | {"transfer_steps": "200"}
    )

    def task(seed):
        return Task(pendulum, spaces.observation_space, spaces.action_space, options, seed)

    def rng(seed):
        return np.random.default_rng(seed)

    pack = PreferenceComparisonsLearner()
    pack.setup_pack([task(4), task(7)], [[], []], [rng(4), rng(7)], "cpu")
    for policy, seed in zip(pack.transfer_policies(), (4, 7), strict=True):
        alone = PreferenceComparisonsLearner()
        alone.setup(task(seed), [], rng(seed), "cpu")
        due = alone.transfer_policy().state_dict()
        for name, value in policy.state_dict().items():
            np.testing.assert_allclose(value, due[name], rtol=1e-4, atol=1e-5)


def test_people_answer_one_run_at_a_time(tmp_path, plan_of, job_of):
    overrides = SETTINGS["preference_comparisons"] | {"gatherer": "human", "answers": "asked"}
    plan = plan_of(["preference_comparisons"], seeds=[0, 1], pack=2, overrides=overrides)
    run_job(job_of(plan, tmp_path))
    for directory in directories(plan, tmp_path):
        assert "--pack: people answer the questions of one run" in directory.read_failure().message


def test_a_seed_sees_only_its_own_environments():
    pendulum = find_environment("Pendulum-v1")
    log = EpisodeLog(make_packed_environments(pendulum, 2, [0, 10]), 2)
    own = SeedEpisodes(log, 1, 2)
    log.set_attr("mark", "first")
    own.set_attr("mark", "second")
    assert log.get_attr("mark") == ["first", "first", "second", "second"]
    assert own.get_attr("mark", 1) == ["second"]
    assert own.env_method("get_wrapper_attr", "mark") == ["second", "second"]
    assert own.env_is_wrapped(Monitor) == [True, True]
    assert own.num_envs == 2
    own.close()
    log.reset()
    for _ in range(200):  # the length of an episode
        log.step(np.zeros((4, 1), dtype=np.float32))
    lengths = {log.pop(seed)["rollout/length_mean"] for seed in (0, 1)}
    assert lengths == {200}
    assert own.pop() == {}
    for call in (own.reset, lambda: own.step(np.zeros((2, 1))), own.step_wait):
        with pytest.raises(RuntimeError, match="of all seeds are"):
            call()
