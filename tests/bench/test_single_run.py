"""Single trainings: the numbers of the harness, live logs, and consistent folders."""

import csv
import json
import signal

import pytest
import torch as th

import imitbench
from imitbench.bench import training
from imitbench.bench.monitor import Monitor
from imitbench.bench.single_run import train_single
from imitbench.bench.stopping import RunStoppedError
from imitbench.bench.training_setup import TrainingConfig
from imitbench.errors import InputError
from imitbench.experts.single_training import prepare_training
from imitbench.experts.training_request import TrainingRequest
from imitbench.records.runs import Budget, EnvironmentSpec
from imitbench.util.hub_client import silent
from imitbench.util.logger import configure

BC = TrainingRequest(algo="bc", env="Pendulum-v1", batches=60, n_demos=3, episodes=3)


def logger(folder):
    return configure(folder, ["csv"])


def do(asked, folder, **options):
    return train_single(
        prepare_training(asked, silent), folder, make_logger=logger, command="test", **options
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("single") / "bc"
    do(BC, folder)
    return folder


class CtrlC(Monitor):
    """Presses Ctrl-C at the first point after some steps."""

    def __init__(self, after):
        self._after = after

    def point(self, step, metrics):
        if step >= self._after:
            signal.raise_signal(signal.SIGINT)


def curve(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_folder_holds_policy_curve_logs_and_result(trained):
    assert {path.name for path in trained.iterdir()} == {
        "config.json", "episodes.parquet", "log", "metrics.jsonl", "policy", "result.json",
    }  # fmt: skip
    config = json.loads((trained / "config.json").read_text())
    assert (config["algo"], config["seed"], config["demos"]["count"]) == ("bc", 0, 3)
    result = json.loads((trained / "result.json").read_text())
    assert result["episodes"] == 3
    assert result["mean_length"] == 200
    rows = list(csv.DictReader((trained / "log" / "progress.csv").open()))
    assert [float(row["bc/loss"]) for row in rows] == pytest.approx(
        [point["bc/loss"] for point in curve(trained)]
    )


@pytest.mark.slow
def test_the_numbers_are_those_of_the_harness(tmp_path):
    run = imitbench.run(
        "bc", env="seals/CartPole-v0", seeds=[3], budget="quick", executor="inline",
        out=tmp_path / "runs", progress=False, overrides={"hidden_size": 16},
    )  # fmt: skip
    [row] = run.scores
    [spec_file] = (tmp_path / "runs").glob("*/*/*/*/spec.json")
    amount = json.loads(spec_file.read_text())["budget"]["amount"]
    asked = TrainingRequest(
        algo="bc", env="seals/CartPole-v0", seed=3, batches=amount, overrides={"hidden_size": "16"}
    )
    alone = do(asked, tmp_path / "alone")
    assert alone.stochastic.returns.mean() == row.raw_return


def test_an_interrupted_training_resumes(tmp_path, trained):
    with pytest.raises(RunStoppedError):
        do(BC, tmp_path / "bc", watch=CtrlC(after=30))
    assert not (tmp_path / "bc" / "result.json").exists()
    assert list((tmp_path / "bc" / "checkpoint").glob("*.state"))
    do(BC, tmp_path / "bc")
    assert curve(tmp_path / "bc") == curve(trained)
    one, other = (
        json.loads((folder / "result.json").read_text()) for folder in (tmp_path / "bc", trained)
    )
    assert one["mean_return"] == other["mean_return"]
    rows = list(csv.DictReader((tmp_path / "bc" / "log" / "progress.csv").open()))
    assert len(rows) == len(curve(trained))


def test_nothing_is_overwritten(tmp_path, trained):
    with pytest.raises(InputError, match="holds a training that is done"):
        do(BC, trained)
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(InputError, match="is not empty"):
        do(BC, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_another_training_is_not_mixed_into_an_interrupted_one(tmp_path):
    folder = tmp_path / "bc"

    with pytest.raises(RunStoppedError):
        do(BC, folder, watch=CtrlC(after=0))
    other = TrainingRequest(algo="bc", env="Pendulum-v1", batches=60, n_demos=3, episodes=3, seed=1)
    with pytest.raises(InputError, match="with other seed"):
        do(other, folder)


def test_a_refused_training_leaves_no_folder(tmp_path):
    asked = TrainingRequest(algo="gail", env="Pendulum-v1", total_timesteps=100)
    with pytest.raises(InputError, match="gail on Pendulum-v1: a budget of 100"):
        do(asked, tmp_path / "gail")
    assert not (tmp_path / "gail").exists()


class OnGpu:
    """A policy on a GPU, which need not exist."""

    device = th.device("cuda")

    def to(self, device):
        self.device = th.device(device)
        return self


@pytest.mark.parametrize(("device", "where"), [("hybrid", "cpu"), ("cuda", "cuda")])
def test_hybrid_trainings_are_evaluated_on_the_cpu(device, where):
    spec = EnvironmentSpec(id="Pendulum-v1", horizon="fixed")
    config = TrainingConfig(spec, spec, Budget(name="quick", unit="none", amount=0), 0, device)
    assert config.training_device == "cuda"
    policy = OnGpu()
    assert training._where_evaluated(policy, config).device.type == where
    assert policy.device.type == "cuda"  # training may go on
