"""Each command that takes a path or a repository reads it through the gate."""

import json

import pytest
import typer
from support.command_lines import commands

from imitbench.cli.main import app
from imitbench.errors import InputError
from imitbench.untrusted import gate

# Options of these names are no files of other people, in any command.
FREE = {
    "out": "results that this program wrote; published folders in it are gated, see `report`",
    "to": "is written", "log_dir": "is written", "keep": "is written", "target": "is written",
    "video": "is written", "storage": "is written", "site": "is written",
    "lock": "written by prefetch; JSON of limited size", "profile": "YAML of limited size",
    "config": "YAML of limited size", "card_file": "a suite card that is changed, as `suite`",
    "best": "YAML of limited size", "external": "results that `import` wrote",
    "new": "as `algo`", "also_new": "as `algo`", "baseline": "as `algo`", "figure": "is written",
    "copies": "SQLite of the same set, whose rows are validated",
    "record": "is written", "controls": "YAML of limited size",
    "card": "is changed; text of limited size",
    "table": "figures of papers; a CSV table, read as text",
    "verifications": "records of `verify`, validated",
    "videos": "copied, if size and first bytes are those of a short MP4 file",
    "entity": "", "project": "", "repo": "downloaded with size and digest; read later by a path",
}  # fmt: skip
# Names of options that are neither paths nor repositories.
_PLAIN = """
acting actions again algorithm allow_variable_horizon alpha amount annotator baselines batch
batches browser budget by captions checkpoint_minutes demo_every deterministic device dims
download draws dry_run env episodes epochs eval_episodes every executor fail_fast fail_if failed
failed_runs float32 follow force format goal gpus held_out_seeds host infos iterations jobs json
keep_anyway kills kind length level license likely limit log_format make_only margin max_episodes
max_mem max_seeds message min_task_minutes n_demos name names newest no_browser number
objective obs observation_key open optimizer pack pack_seeds pairs per per_gpu points port private
prune public_seed query question queue quiet race rate regime rename reoptimize replicates retries
revision reward_board run runs score_one scores search_seeds search_share seed seeds set_ show
show_controls simulate steps strict submit_to success tail threads timeout title total_comparisons
total_timesteps trials true_policies trust undo url video_episodes wait wandb_project watch weights
with_policies without_curves yes
"""
PLAIN = frozenset(_PLAIN.split())


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.npz", "a.csv", "a.json", "a.hdf5", "a.jsonl"):
        (tmp_path / name).write_text("{}")
    for name in ("policy", "suite", "method", "set", "sub", "reward", "parquet/data"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "parquet/data/train-00000-of-00001.parquet").write_text("x")
    (tmp_path / "parquet/README.md").write_text("---\na: b\n---\n")
    (tmp_path / "policy/policy.json").write_text("{}")
    (tmp_path / "policy/policy.safetensors").write_text("")
    (tmp_path / "reward/reward.json").write_text("{}")
    demos = tmp_path / "other/demos/ppo-seals-CartPole-v0/data"
    demos.mkdir(parents=True)
    (demos / "train-00000-of-00001.parquet").write_text("x")
    expert = tmp_path / "mine/experts/ppo-seals-CartPole-v0"
    expert.mkdir(parents=True)
    (expert / "policy.json").write_text("{}")
    (expert / "policy.safetensors").write_text("")
    (tmp_path / "suite/suite.yaml").write_text("{}")
    (tmp_path / "method/card.yaml").write_text("{}")
    (tmp_path / "method/__init__.py").write_text("")
    (tmp_path / "sub/manifest.json").write_text(json.dumps({"format": "imitbench-results"}))
    return tmp_path


# Commands, options that are read through the gate, and a call that shows it.
ENV = "--env CartPole-v1"
GATED = {
    "demos convert": {"places": "a.npz new", "source": "a.npz new"},
    "demos export": {"source": "a.npz out.csv"},
    "demos validate": {"path": "a.csv"},
    "demos show": {"path": "a.jsonl"},
    "experts convert": {"source": f"policy new {ENV}"},
    "experts eval": {"expert": f"policy {ENV}"},
    "eval": {"policy": f"policy {ENV}", "other": f"policy ppo-seals-CartPole-v0 --race {ENV}"},
    "train eval-policy": {"policy": f"policy {ENV}",
                          "other": f"policy ppo-seals-CartPole-v0 --race {ENV}"},
    "rewards show": {"run": f"reward {ENV} --json"},
    "label open": {"folder": "set", "policy": f"--policy ./policy {ENV} --to labels",
                   "demos": f"--demos a.npz {ENV} --to labels",
                   "pairs_from": "--pairs-from a.json --to labels"},
    "label status": {"folder": "set"},
    "label export": {"folder": "set out"},
    "label push": {"folder": "parquet me/x --yes"},
    "leaderboard intake": {"folder": "sub", "results": "sub --results sub"},
    "leaderboard rescore": {"submission": "sub new"},
    "leaderboard model-card": {"results": "README.md --algo bc --results sub"},
    "label import": {"folder": "set a.jsonl", "source": "set a.jsonl"},
    "label merge": {"folder": "set other"},
    "import sacred": {"folder": "sub"},
    "import csv": {"file": "a.csv"},
    "import rliable": {"file": "a.npz"},
    "import human-preferences": {"folder": "sub", "data": "sub --data a.hdf5 --to new"},
    "leaderboard validate": {
        "submission": "sub", "against": "sub --against sub", "registered": "sub --registered sub"
    },
    "leaderboard verify": {"submission": "sub"},
    "leaderboard build": {"results": "--results sub --out site", "out": "--out site --results sub"},
    "report": {"out": "--out sub"},
    "compare": {"against": "bc --out sub --against a.json", "out": "bc --out sub"},
    "sql": {"out": "SELECT+1 --out sub"},
    "status": {"out": "--out sub"},
    "claims": {"results": "--results sub"},
    "demos collect": {
        "experts": "--suite classic --env seals/CartPole-v0 --experts mine --to new"
    },
    "suites show": {"name": "./suite"},
    "suites measure": {"name": "./suite"},
    "algos": {"name": "./method"},
    "experts push": {"folder": "policy me/x --yes"},
    "demos push": {"folder": "parquet me/x --yes"},
    "init-suite": {"from_demos": "mine --from-demos a.npz"},
}  # fmt: skip
# Options that every command passes to the same function, and a call of one of them.
SHARED = {
    "suite": ("run", "--algo bc --suite ./suite"),
    "algo": ("run", "--algo ./method --suite classic"),
    "source": ("run", "--algo bc --suite classic --env seals/CartPole-v0 --source path:other"),
    "mixture": (
        "run",
        "--algo iswbc --suite classic --env Pendulum-v1 --n-demos 1 --mixture m=a.npz:1",
    ),
    "demos": ("train imitation bc", f"{ENV} --demos parquet"),
    "expert": ("train imitation dagger", f"{ENV} --expert ./policy"),
    "reward": ("train rl", f"{ENV} --reward ./reward"),
    "reward_plugin": ("train rl", f"{ENV} --reward ./reward --reward-plugin ./method"),
}
WRITTEN = {"leaderboard init": "folder", "results wandb": "folder", "results export": "folder"}


def test_each_option_that_may_be_a_path_is_accounted_for():
    unknown = []
    for words, command in commands():
        for option in command.params:
            everywhere = option.name in {*FREE, *PLAIN, *SHARED}
            here = {*GATED.get(words, ()), WRITTEN.get(words)}
            if not everywhere and option.name not in here:
                unknown.append(f"{words}: {option.name}")
    assert unknown == []


CALLS = [(words, call) for words, each in GATED.items() for call in each.values()]


@pytest.mark.parametrize(("words", "call"), [*CALLS, *SHARED.values()])
def test_the_command_passes_the_gate(words, call, place, monkeypatch):
    def refuse(read, path):
        raise InputError(f"{path}: stopped at the gate")

    monkeypatch.setattr(gate, "try_reading", refuse)
    with pytest.raises((InputError, typer.Exit)) as caught:
        app(
            [*words.split(), *(word.replace("+", " ") for word in call.split())],
            standalone_mode=False,
        )
    assert "stopped at the gate" in str(caught.value)
