"""Pulling returns what was pushed, through the hub's real client."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from support.drift import drift_venv
from support.results import write_failed_run, write_finished_run
from support.sb3_models import ppo

from imitbench.bench.environments import make_environment
from imitbench.cards.catalog import suite_directory
from imitbench.data.demonstrations import read_demonstrations
from imitbench.errors import InputError
from imitbench.experts.lookup import find_environment
from imitbench.hub.dataset_publication import staged_demos, staged_results
from imitbench.hub.expert_publication import staged_expert
from imitbench.hub.publication import push
from imitbench.hub.pull import copy_out, pull
from imitbench.hub.repo_card import RepoCard
from imitbench.policies.expert import load_expert_policy
from imitbench.policies.storage import load_policy, save_policy
from imitbench.published.results_folder import PATTERNS, read_runs
from imitbench.published.submission import read_strictly
from imitbench.util import hub_client
from imitbench.util.hub_errors import UnreachableError

ROOT = suite_directory("classic")
CARTPOLE = ROOT / "experts" / "ppo-seals-CartPole-v0"
PENDULUM = ROOT / "experts" / "sac-Pendulum-v1"
DEMOS = ROOT / "demos" / "sac-Pendulum-v1"

pytestmark = pytest.mark.usefixtures("client")


@pytest.fixture(autouse=True)
def token(monkeypatch, hub):
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    hub.writers = {"hf_mine": {"me"}}


def push_expert(folder, repo, **options):
    with staged_expert(folder, repo, **options) as publication:
        return publication, push(publication)


def push_demos(folder, repo, **options):
    with staged_demos(folder, repo, **options) as publication:
        return publication, push(publication)


def push_results(out, repo, **options):
    runs = read_runs(out)
    options = {"report": "# Report\n\n| a | b |\n", "command": "imitbench results push"} | options
    with staged_results(out, runs, repo, **options) as publication:
        return publication, push(publication)


def observations(env_id, count=32):
    env = make_environment(find_environment(env_id))
    env.observation_space.seed(0)
    seen = [env.reset(seed=0)[0]]
    env.action_space.seed(0)
    while len(seen) < count:
        seen.append(env.step(env.action_space.sample())[0])
    return np.stack(seen), env


def actions(policy, seen):
    return policy.predict(seen, deterministic=True)[0]


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("folder", "env_id", "cls"),
    [(CARTPOLE, "seals/CartPole-v0", PPO), (PENDULUM, "Pendulum-v1", SAC)],
    ids=["ppo", "sac"],
)
def test_an_expert_acts_the_same_pulled_and_in_stable_baselines(hub, tmp_path, folder, env_id, cls):
    before = snapshot(folder)
    publication, done = push_expert(folder, "me/thing")
    assert snapshot(folder) == before
    assert set(hub.files("model", "me/thing")) == {".gitattributes", *publication.files}
    pulled = pull("model", "me/thing")
    assert pulled.revision == done.commit
    seen, env = observations(env_id)
    wanted = actions(load_policy(folder), seen)
    np.testing.assert_array_equal(actions(load_expert_policy(pulled.folder), seen), wanted)
    model, shown = cls.load(pulled.folder / "thing.zip"), seen
    statistics = pulled.folder / "vec_normalize.pkl"
    if statistics.exists():
        shown = VecNormalize.load(statistics, DummyVecEnv([lambda: env])).normalize_obs(seen)
    np.testing.assert_allclose(actions(model, shown), wanted, atol=1e-5)
    # Our own reader of such zips finds everything that belongs to it.
    alone = tmp_path / "zip"
    alone.mkdir()
    for path in (pulled.folder / "thing.zip", statistics):
        if path.exists():
            shutil.copy(path, alone)
    np.testing.assert_allclose(actions(load_expert_policy(alone), seen), wanted, atol=1e-5)


def test_the_code_on_the_card_runs(hub, tmp_path):
    push_expert(CARTPOLE, "me/thing")
    text = RepoCard.parse(hub.files("model", "me/thing")["README.md"].decode()).text
    code = text.partition("```python\n")[2].partition("```")[0]
    _, env = observations("seals/CartPole-v0")
    names = {"venv": DummyVecEnv([lambda: env])}
    assert "VecNormalize.load" in code
    exec(code, names)
    action, _ = names["model"].predict(names["venv"].reset(), deterministic=True)
    assert action.shape == (1,)
    assert names["venv"].training is False


def test_the_card_keeps_its_text_and_describes_the_zip(hub):
    push_expert(CARTPOLE, "me/thing")
    card = RepoCard.parse(hub.files("model", "me/thing")["README.md"].decode())
    own = RepoCard.read(CARTPOLE / "README.md")
    assert card.metadata == own.metadata
    assert card.text.startswith(own.text)
    assert "`thing.zip` is the same policy" in card.text
    assert "read by unpickling" in card.text


def test_pushing_again_changes_nothing_although_the_zip_is_exported_again(hub):
    _, first = push_expert(CARTPOLE, "me/thing")
    uploads = hub.count("PUT /store/")
    _, again = push_expert(CARTPOLE, "me/thing")
    assert (again.commit, again.changed) == (first.commit, False)
    assert hub.count("PUT /store/") == uploads


def test_a_pulled_repository_can_be_pushed(hub, tmp_path):
    push_expert(CARTPOLE, "me/thing")
    files = hub.files("model", "me/thing")
    copy = copy_out(pull("model", "me/thing"), tmp_path)
    publication, done = push_expert(copy, "me/thing")
    assert publication.notes == []
    # A training's curve is not pulled; files that the push does not own are not removed.
    assert hub.files("model", "me/thing") == files
    assert not done.changed


def test_a_policy_of_a_run_is_pushed(hub, tmp_path):
    model = ppo()
    save_policy(model.policy, tmp_path / "run" / "policy")
    (tmp_path / "run" / "log.txt").write_text("secret")
    publication, _ = push_expert(tmp_path / "run", "me/run", env_id="Drift-v0")
    assert set(publication.files) == {
        "policy.json", "policy.safetensors", "README.md", "run.zip"
    }  # fmt: skip
    assert publication.notes == [
        "left out: log.txt",
        "the card states no mean reward: no results.json",
        "no license: others may not use it; give --license, such as mit",
    ]
    seen = drift_venv().reset()
    loaded = load_expert_policy(pull("model", "me/run").folder)
    np.testing.assert_array_equal(actions(loaded, seen), actions(model.policy, seen))


def test_the_mean_reward_and_licence_are_added_to_a_card(hub, tmp_path):
    save_policy(ppo().policy, tmp_path / "mine")
    results = {"mean_reward": 7.25, "std_reward": 0.5}
    (tmp_path / "mine" / "results.json").write_text(json.dumps(results))
    (tmp_path / "mine" / "config.yml").write_text("algo: ppo\n")
    publication, _ = push_expert(tmp_path / "mine", "me/x", env_id="Drift-v0", license="mit")
    metadata = RepoCard.parse(hub.files("model", "me/x")["README.md"].decode()).metadata
    assert metadata["license"] == "mit"
    assert metadata["library_name"] == "imitbench"
    assert {"Drift-v0", "reinforcement-learning", "imitbench"} == set(metadata["tags"])
    [model] = metadata["model-index"]
    assert model["name"] == "PPO"
    [result] = model["results"]
    assert result["metrics"][0]["value"] == "7.25 +/- 0.50"
    assert publication.notes == []


def test_an_expert_without_an_exportable_zip_is_pushed_without_it(hub):
    folder = suite_directory("tabular") / "experts" / "exact-seals-CliffWorld7x4-v0"
    publication, _ = push_expert(folder, "me/exact")
    [message] = publication.notes
    assert message.startswith("no zip for Stable-Baselines3: ")
    assert "ObservationTabularPolicy" in message
    files = hub.files("model", "me/exact")
    assert not any(name.endswith((".zip", ".pkl")) for name in files)
    assert "Stable-Baselines3" not in files["README.md"].decode()
    assert load_expert_policy(pull("model", "me/exact").folder) is not None


def test_statistics_of_an_earlier_policy_are_removed(hub, tmp_path):
    push_expert(CARTPOLE, "me/thing")
    assert "vec_normalize.pkl" in hub.files("model", "me/thing")
    save_policy(ppo().policy, tmp_path / "plain")
    _, done = push_expert(tmp_path / "plain", "me/thing")
    assert done.removed == ("vec_normalize.pkl",)
    assert "vec_normalize.pkl" not in hub.files("model", "me/thing")


def test_a_zip_must_be_converted_first(tmp_path):
    ppo().save(tmp_path / "model.zip")
    with (
        pytest.raises(InputError, match="`imitbench experts convert"),
        staged_expert(tmp_path, "me/x"),
    ):
        pass


def test_an_expert_with_a_link_is_refused(hub, tmp_path):
    shutil.copytree(CARTPOLE, tmp_path / "expert")
    (tmp_path / "expert" / "training.json").unlink()
    (tmp_path / "expert" / "training.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "secret.json").write_text("{}")
    with pytest.raises(InputError, match=r"training\.json: a link"):
        push_expert(tmp_path / "expert", "me/x")
    assert hub.requests == []


def test_a_file_with_a_token_is_refused(hub, tmp_path):
    shutil.copytree(CARTPOLE, tmp_path / "expert")
    (tmp_path / "expert" / "config.yml").write_text(f"token: hf_{'a' * 34}\n")
    with pytest.raises(InputError, match="access token"):
        push_expert(tmp_path / "expert", "me/x")
    assert hub.requests == []


def test_pulled_demonstrations_equal_the_pushed_ones(hub):
    publication, done = push_demos(DEMOS, "me/demos")
    pulled = pull("dataset", "me/demos")
    assert pulled.revision == done.commit
    assert set(publication.files) == {"README.md", "data/train-00000-of-00001.parquet"}
    for before, after in zip(
        read_demonstrations(DEMOS), read_demonstrations(pulled.folder), strict=True
    ):
        for name in ("obs", "acts", "rews"):
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert (
        hub.files("dataset", "me/demos")["data/train-00000-of-00001.parquet"]
        == (DEMOS / "data" / "train-00000-of-00001.parquet").read_bytes()
    )


def test_the_card_has_the_schema_of_the_datasets_library(hub, tmp_path, monkeypatch):
    import datasets

    push_demos(DEMOS, "me/demos", license="cc0-1.0")
    folder = copy_out(pull("dataset", "me/demos"), tmp_path)
    metadata = RepoCard.read(folder / "README.md").metadata
    assert metadata["license"] == "cc0-1.0"
    info = metadata["dataset_info"]
    assert info["splits"][0]["num_examples"] == len(read_demonstrations(DEMOS))
    read = datasets.Features._from_yaml_list(info["features"])
    assert read == datasets.Features.from_arrow_schema(
        pq.read_schema(folder / "data" / "train-00000-of-00001.parquet")
    )
    loaded = datasets.load_dataset(str(folder), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.features == read


def test_demonstrations_without_a_card_get_one(hub, tmp_path):
    shutil.copytree(DEMOS / "data", tmp_path / "demos" / "data")
    publication, _ = push_demos(tmp_path / "demos", "me/demos", env_id="Pendulum-v1")
    card = RepoCard.parse(hub.files("dataset", "me/demos")["README.md"].decode())
    assert card.text.startswith("# Demonstrations on Pendulum-v1\n")
    assert f"| trajectories | {len(read_demonstrations(DEMOS))} |" in card.text
    assert "| observation | float32[3] |" in card.text
    assert publication.notes == ["no license: others may not use it; give --license, such as mit"]


def test_shards_of_an_earlier_set_are_removed(hub, tmp_path):
    data = tmp_path / "demos" / "data"
    shutil.copytree(DEMOS / "data", data)
    [whole] = data.iterdir()
    for number in range(2):
        shutil.copy(whole, data / f"train-0000{number}-of-00002.parquet")
    whole.unlink()
    push_demos(tmp_path / "demos", "me/demos")
    count = len(read_demonstrations(DEMOS))
    assert len(read_demonstrations(pull("dataset", "me/demos").folder)) == 2 * count
    _, done = push_demos(DEMOS, "me/demos")
    assert len(done.removed) == 2
    assert len(read_demonstrations(pull("dataset", "me/demos").folder)) == count


def test_bad_demonstrations_are_refused(hub, tmp_path):
    import pyarrow as pa

    shutil.copytree(DEMOS, tmp_path / "demos")
    [path] = (tmp_path / "demos" / "data").iterdir()
    table = pq.read_table(path)
    rews = table["rews"].to_pylist()
    rews[3][0] = float("nan")
    column = pa.array(rews, table.schema.field("rews").type)
    pq.write_table(table.set_column(table.schema.get_field_index("rews"), "rews", column), path)
    with pytest.raises(InputError, match=r"episode 3: .*demos validate"):
        push_demos(tmp_path / "demos", "me/demos")
    assert hub.requests == []


def test_a_folder_of_another_layout_is_reported(tmp_path):
    (tmp_path / "rollouts.npz").touch()
    with (
        pytest.raises(InputError, match="`imitbench demos convert"),
        staged_demos(tmp_path, "me/x"),
    ):
        pass


def test_an_interrupted_push_can_be_resumed(hub):
    hub.fail("POST .*/commit", 503, times=1000)
    with pytest.raises(UnreachableError):
        push_expert(CARTPOLE, "me/thing")
    uploads = hub.count("PUT /store/")
    hub.faults.clear()
    publication, done = push_expert(CARTPOLE, "me/thing")
    assert done.changed
    assert hub.count("PUT /store/") == uploads
    assert set(hub.files("model", "me/thing")) == {".gitattributes", *publication.files}


@pytest.fixture
def out(tmp_path):
    out = tmp_path / "runs"
    for seed in range(2):
        directory = write_finished_run(out, seed)
        save_policy(ppo().policy, directory.policy)
        (directory.path / "log.txt").write_text("private")
    write_failed_run(out, seed=7)
    return out


def test_pulled_results_equal_the_pushed_ones(hub, out):
    publication, _ = push_results(out, "me/results", license="cc-by-4.0")
    files = set(publication.files)
    assert files == {name for name in hub.files("dataset", "me/results") if name[0] != "."}
    assert len(files) == 6
    assert not any("polic" in name or "log" in name for name in files)
    fetched = hub_client.fetch("me/results", files=PATTERNS, kind="dataset")
    published = read_strictly(fetched.folder).published
    assert [run.spec for run in published] == [run.spec for run in read_runs(out).runs]
    assert [run.result.raw_return for run in published if run.result] == [
        run.result.raw_return for run in read_runs(out).runs if run.result
    ]


def test_the_card_of_results_holds_the_report_and_explains_the_files(hub, out):
    push_results(out, "me/results", license="cc-by-4.0")
    card = RepoCard.parse(hub.files("dataset", "me/results")["README.md"].decode())
    assert card.metadata["license"] == "cc-by-4.0"
    assert "imitbench" in card.metadata["tags"]
    assert card.text.startswith("# Report\n\n| a | b |\n\n## Files\n")
    assert "`imitbench results pull me/results --out DIR`" in card.text


def test_policies_are_pushed_only_on_request(hub, out):
    publication, _ = push_results(out, "me/results", with_policies=True)
    policies = {name for name in publication.files if name.startswith("policies/")}
    runs = [run.spec.run_id for run in read_runs(out).runs if run.result]
    assert policies == {
        f"policies/{run}/{name}" for run in runs for name in ("policy.json", "policy.safetensors")
    }
    _, done = push_results(out, "me/results")
    assert set(done.removed) == policies


def test_one_more_run_changes_few_files(hub, out):
    push_results(out, "me/results")
    before = hub.files("dataset", "me/results")
    spec = write_finished_run(out, seed=5).read_spec()
    push_results(out, "me/results")
    after = hub.files("dataset", "me/results")
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {
        "manifest.json", "runs/classic.jsonl", f"episodes/classic/{spec.run_id}.csv"
    }  # fmt: skip
    old, new = (set(each["runs/classic.jsonl"].splitlines()) for each in (before, after))
    assert old < new


def test_results_are_not_pushed_to_a_repository_of_demonstrations(hub, out):
    push_demos(DEMOS, "me/demos")
    with pytest.raises(InputError, match="with files that are not from such a push"):
        push_results(out, "me/demos")


def test_missing_results_are_reported(tmp_path):
    with pytest.raises(InputError, match="no such folder; run `imitbench run"):
        read_runs(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no finished runs to publish"):
        push_results(tmp_path / "empty", "me/results")


def test_metadata_of_cards_is_yaml(hub, out):
    push_expert(CARTPOLE, "me/a")
    push_demos(DEMOS, "me/b")
    push_results(out, "me/c")
    for kind, repo in (("model", "me/a"), ("dataset", "me/b"), ("dataset", "me/c")):
        text = hub.files(kind, repo)["README.md"].decode()
        assert isinstance(yaml.safe_load(text.split("---\n")[1]), dict)
