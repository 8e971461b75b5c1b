"""Every table that a command prints, on terminals of four widths.

The golden files have the output of a command at each width; `UPDATE_GOLDEN=1` writes them anew.
"""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from support.runs import make_spec
from support.shown_results import write_results

from imitbench.cli.main import app
from imitbench.records.runs import ReferenceScores

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (60, 80, 120, 200)
REPORT = ("--replicates", "100")
# What each golden file shows.
COMMANDS = {
    "report": ("report", "--format", "text", *REPORT),
    "compare": ("compare", "bc", *REPORT),
    "status": ("status",),
    "status-of-two-folders": ("status", "--out", "runs", "--out", "second"),
    "sql": ("sql", "select suite, env, algo, seed, phase, error_type, message from failures"),
    "sql-counts": ("sql", "select algo, count(*) as runs from scores group by all order by all"),
    "run-dry": ("run", "--algo", "bc,preference_comparisons", "--suite", "classic", "--dry-run"),
    "algos": ("algos",),
    "algos-bc": ("algos", "bc"),
    "suites": ("suites",),
    "suites-show": ("suites", "show", "classic"),
    "experts-list": ("experts", "list", "--suite", "classic"),
    "experts-pull": ("experts", "pull", "--suite", "seals"),
    "prefetch": ("prefetch", "--suite", "seals"),
    "demos-list": ("demos", "list", "--suite", "classic"),
    "demos-show": ("demos", "show", "ppo-seals-CartPole-v0"),
    "import-csv": ("import", "csv", "table.csv", "--suite", "classic", "--dry-run"),
    "leaderboard-validate": ("leaderboard", "validate", "submission"),
    "tune-show": ("tune", "--show"),
    "doctor": ("doctor",),
}  # fmt: skip


def _check_algo():
    from imitbench.cli.check_algo import _print
    from imitbench.conformance.checks import CheckResult, ConformanceReport

    findings = [
        CheckResult("spaces", "passed", "observations and actions of six kinds of spaces"),
        CheckResult("seeding", "failed", "two trainings with seed 0 differ in policy.net.0.weight"),
        CheckResult("rewards", "skipped", "training is not repeatable, so this cannot be checked"),
        CheckResult("speed", "told", "9000 steps per second"),
    ]
    _print(ConformanceReport("my_method", "seals/CartPole-v0", "2000 env_steps", findings))


def _eval():
    from imitbench.cli.evaluate import _document, _print
    from imitbench.records.episodes import Episodes

    episodes = Episodes(
        returns=np.array([-150.5, -130.25, -420.125]),
        lengths=np.array([200, 200, 200]),
        terminated=np.zeros(3, bool),
        deterministic=False,
    )
    references = ReferenceScores(random=-1199.65, expert=-146.02, version="1")
    _print(
        _document("runs/classic/bc/Pendulum-v1/0123456789ab", "Pendulum-v1", episodes, references)
    )


def _leaderboard_verify():
    from imitbench.cli.leaderboard_verify import print_reproductions
    from imitbench.conformance.reproduction import Reproduction
    from imitbench.published.verification import ReturnComparison

    runs = [
        Reproduction(
            make_spec(0, "bc", "seals/MountainCar-v0"),
            "identical",
            ReturnComparison(stated=-130.52, found=-130.52, noise_band=16.6569, seed_band=8.7),
        ),
        Reproduction(
            make_spec(1, "preference_comparisons", "Pendulum-v1"),
            "within noise",
            ReturnComparison(stated=-190.25, found=-182.125, noise_band=16.6569, seed_band=None),
        ),
        Reproduction(make_spec(2, "gail", "Pendulum-v1"), "failed", problem="the loss is nan"),
    ]
    print_reproductions(Path("submission"), runs, wanted=3)


def _verify_resume():
    from imitbench.cli.verify_resume import _print
    from imitbench.conformance.bitwise import Difference, PartDifferences
    from imitbench.conformance.resume import InterruptionOutcome, ResumeVerdict

    unequal = Difference("policy.net.0.weight", "differs by up to 0.25", in_array=True)
    verdict = ResumeVerdict(
        offers=12,
        interruptions=[
            InterruptionOutcome(3, "stopped", 3, [], []),
            InterruptionOutcome(8, "damaged", 5, [], [unequal]),
        ],
        parts=[
            PartDifferences("episodes", "100", []),
            PartDifferences("policy", "6", [unequal]),
        ],
    )
    _print(make_spec(0, "my_method", "Pendulum-v1"), verdict)


def _run():
    from imitbench.report.build import build
    from imitbench.report.terminal import render_short
    from imitbench.util.text_line import uses_color, width_of

    built = build([Path("runs")], notify=print, replicates=100)
    print(render_short(built, width=width_of(), color=uses_color()))


# Commands whose tables need a training or an upload: what prints them, with fixed records.
PRINTERS = {
    "check-algo": _check_algo,
    "eval": _eval,
    "leaderboard-verify": _leaderboard_verify,
    "run": _run,
    "verify-resume": _verify_resume,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A working directory with two results folders, a submission and a table."""
    folder = tmp_path_factory.mktemp("place")
    message = "the loss is nan: the learning rate is too high for rewards of this size"
    write_results(folder / "runs", seeds=2, failing=(("gail", "Pendulum-v1", 1),), message=message)
    write_results(folder / "second", seeds=1, skills={"bc": ((0.9, 0.1),) * 3}, failing=())
    runs = "algo,env,seed,raw_return\nbc,Pendulum-v1,0,-150\nbc,seals/CartPole-v0,1,490\n"
    (folder / "table.csv").write_text(runs)
    shutil.copytree(
        Path(__file__).parents[2] / "results" / "imitbench-classic-controls", folder / "submission"
    )
    return folder


@pytest.fixture
def fixed(place, monkeypatch, request):
    """Replaces what depends on the machine, or grows with the package."""
    from imitbench.bench import installation
    from imitbench.cards import catalog, plugins
    from imitbench.hub import suite_sources
    from imitbench.tune import runner

    monkeypatch.chdir(place)
    monkeypatch.setattr(
        suite_sources, "pull_sources", lambda *_, **__: [(None, each) for each in _pulled()]
    )
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    names = ["bc", "iq_learn", "ppo_true_reward", "preference_comparisons", "zero_reward"]
    if request.node.callspec.params["name"] in ("algos", "suites"):
        monkeypatch.setattr(catalog, "algorithm_names", lambda: names)
        monkeypatch.setattr(catalog, "suite_names", lambda: ["classic", "seals"])
        monkeypatch.setattr(plugins, "entry_points", dict)
    monkeypatch.setattr(installation, "check_installation", lambda _: _checks())
    monkeypatch.setattr(runner, "read_studies", lambda _: [_study()])
    study = place / "runs" / ".tuning" / "bc-classic-quick" / "Pendulum-v1" / "study.json"
    study.parent.mkdir(parents=True, exist_ok=True)
    study.touch()  # `read_studies` above says what is in it


def _checks():
    from imitbench.bench.installation import InstallationCheck

    return [
        InstallationCheck("machine", True, "Python 3.11.7, 2 cores"),
        InstallationCheck("algorithms", True, ", ".join(f"method_{n}" for n in range(12))),
        InstallationCheck(
            "results folder", False, "runs: cannot be written; choose one with --out"
        ),
    ]


def _pulled():
    from imitbench.hub.pull import PulledArtifact

    folder = Path("/home/someone/.cache/huggingface/hub/models--HumanCompatibleAI/snapshots")
    found = {"seals-Ant-v1": 612345, "seals-Walker2d-v1": 98765}
    return [
        PulledArtifact(
            kind="model",
            repo=f"HumanCompatibleAI/ppo-{name}",
            revision="0af1" * 10,
            folder=folder / name,
            digest="ab" * 32,
            size=size,
        )
        for name, size in found.items()
    ]


def _study():
    from imitbench.tune.held_out_comparison import HeldOutComparison
    from imitbench.tune.request import StudySettings
    from imitbench.tune.runner import StudyOverview
    from imitbench.tune.study import Trial

    settings = StudySettings.model_construct(
        algo="bc", env="Pendulum-v1", environments=[], objective="return", budget="quick"
    )
    values = {"batch_size": 64, "learning_rate": 0.001, "hidden_size": 64, "hidden_layers": 2}
    other = {"batch_size": 256, "learning_rate": 0.00789, "hidden_size": 32, "hidden_layers": 3}
    trials = [
        Trial(0, 0, "complete", values, -210.5),
        Trial(1, 1, "complete", other, -170.25),
        Trial(2, 2, "pruned", {**values, "batch_size": 16}, -400.0, pruned_at=200),
        Trial(3, 3, "failed", {**values, "hidden_layers": 1}, failure="the loss is nan"),
    ]
    scores = {"scores": [0.5, 0.75], "environments": ["Pendulum-v1"] * 2}
    comparison = HeldOutComparison.model_validate(
        {
            "standings": [
                {
                    "candidate": {"trial": 0, "values": values},
                    **scores,
                    "returns": [-220.0, -200.0],
                },
                {
                    "candidate": {"trial": 1, "values": other},
                    **scores,
                    "returns": [-180.0, -170.0],
                    "decision": "better",
                    "difference": 0.25,
                    "p_value": 0.0125,
                },
            ],
            "trials": 4,
        }
    )
    return StudyOverview("bc-classic-quick", settings, trials, comparison)


def show(name, capsys, monkeypatch, width):
    """Returns what a command prints on stdout, on a terminal of this width."""
    monkeypatch.setenv("COLUMNS", str(width))
    if name in PRINTERS:
        PRINTERS[name]()
    else:
        app(list(COMMANDS[name]), standalone_mode=False)
    return capsys.readouterr().out


@pytest.mark.parametrize("name", [*COMMANDS, *PRINTERS])
def test_a_command_prints_the_golden_table_at_every_width(name, fixed, capsys, monkeypatch):
    found = ""
    for width in WIDTHS:
        shown = show(name, capsys, monkeypatch, width)
        assert shown.strip()
        assert max(map(cell_len, shown.splitlines())) <= width
        assert "\x1b" not in shown
        found += f"===== {width} columns =====\n{shown.rstrip()}\n"
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


def test_every_golden_file_belongs_to_a_command():
    assert {path.stem for path in GOLDEN.iterdir()} == {*COMMANDS, *PRINTERS}
