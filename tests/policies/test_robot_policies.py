"""Policies of LeRobot and robomimic act as in these libraries, and are read as data only.

`robot_policies` has policies that LeRobot 0.4.4 and robomimic 0.3.0 wrote, with random weights, and
the actions that they chose.
"""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from safetensors.torch import load_file, save_file
from support.bombs import Bomb, read_zip, tensor_file, write_zip

from imitbench.errors import InputError
from imitbench.experts.conversion import convert_expert
from imitbench.policies.expert import Spaces, load_expert_policy
from imitbench.policies.lerobot_act import ActNetwork
from imitbench.policies.lerobot_diffusion import DiffusionNetwork
from imitbench.policies.lerobot_settings import ENVIRONMENT, STATE, read_settings
from imitbench.policies.observation_parts import Feature

HERE = Path(__file__).parent / "robot_policies"
sys.path.insert(0, str(HERE))
import make_lerobot as lerobot  # noqa: E402
import make_robomimic as robomimic  # noqa: E402

STATE_BOX, ENVIRONMENT_BOX = (spaces.Box(-9, 9, (size,), np.float32) for size in (2, 3))
ROOM = spaces.Dict({"agent_pos": STATE_BOX, "environment_state": ENVIRONMENT_BOX})
KITCHEN = spaces.Dict({"object": ENVIRONMENT_BOX, "robot0_eef_pos": STATE_BOX})
ACTIONS = spaces.Box(-99, 99, (2,), np.float32)
STATES_ONLY = [name for name, (_, _, pixels) in lerobot.POLICIES.items() if pixels is None]


def load(path, room=ROOM, actions=ACTIONS, keys=None):
    return load_expert_policy(path, Spaces(room, actions), observation_keys=keys)


def acted(policy, observations):
    """Returns the actions of one episode, with the seed of the recorded ones."""
    th.manual_seed(5)
    state, actions = None, []
    for observation in observations:
        action, state = policy.predict(observation, state=state)
        actions.append(action)
    return np.stack(actions)


def episode_of_lerobot(pixels=None):
    seen = lerobot.observations(pixels)
    short = {STATE: "agent_pos", ENVIRONMENT: "environment_state", lerobot.IMAGE: "pixels"}
    kinds = {lerobot.IMAGE: np.uint8}
    return [
        {short[key]: each[step].astype(kinds.get(key, np.float32)) for key, each in seen.items()}
        for step in range(lerobot.STEPS)
    ]


def recorded(name, file="actions.json"):
    return np.array(json.loads((HERE / file).read_text())[name])


@pytest.mark.parametrize("name", STATES_ONLY)
def test_policies_of_lerobot_act_as_there(name):
    actions = acted(load(HERE / name), episode_of_lerobot())
    np.testing.assert_allclose(actions, recorded(name), atol=1e-5)


def with_images(name, to, **settings):
    """Copies a policy with images and computes its weights; returns it and the environment's."""
    kind, _, pixels = lerobot.POLICIES[name]
    folder = Path(shutil.copytree(HERE / name, to))
    changed(folder, **settings)
    made, prefix = {
        "act": (ActNetwork, "model."), "diffusion": (DiffusionNetwork, "diffusion."),
    }[kind]  # fmt: skip
    pixels = tuple(read_settings(folder).images[lerobot.IMAGE].shape)
    network = made(
        read_settings(folder), Feature(STATE, (2,)), Feature(ENVIRONMENT, (3,)),
        [Feature(lerobot.IMAGE, pixels, True)], 2,
    )  # fmt: skip
    weights = {prefix + key: value for key, value in network.state_dict().items()}
    shapes = {
        key: tuple(value.shape) for key, value in weights.items() if not lerobot.is_fixed(key)
    }
    save_file({**weights, **lerobot.numbers_of(shapes)}, folder / "model.safetensors")
    return folder, spaces.Dict({**ROOM.spaces, "pixels": spaces.Box(0, 255, pixels, np.uint8)})


@pytest.mark.parametrize("name", sorted(set(lerobot.POLICIES) - set(STATES_ONLY)))
def test_policies_of_lerobot_with_images_act_as_there(tmp_path, name):
    folder, room = with_images(name, tmp_path / name)
    # The second plan is made at the third or fourth step.
    pixels = lerobot.POLICIES[name][2]
    actions = acted(load(folder, room), episode_of_lerobot(pixels)[:4])
    np.testing.assert_allclose(actions, recorded(name)[:4], atol=1e-5)
    with pytest.raises(InputError, match=r"observation.image is an image, but pixels .* is Box"):
        load(folder, spaces.Dict({**ROOM.spaces, "pixels": STATE_BOX}))


def test_images_are_resized_as_pillow_does_before_they_are_cropped(tmp_path):
    image = pytest.importorskip("PIL.Image")
    size, small = {"crop_shape": [32, 40]}, (48, 54)
    folder, room = with_images("diffusion_pixels", tmp_path / "a", resize_shape=small, **size)
    inputs = json.loads((folder / "config.json").read_text())["input_features"]
    inputs[lerobot.IMAGE]["shape"] = [3, *small]
    other, small_room = with_images(
        "diffusion_pixels", tmp_path / "b", input_features=inputs, **size
    )
    large = np.random.default_rng(0).random((1, 2, 3, 96, 90), np.float32)
    scaled = [image.fromarray(each).resize(small[::-1], image.Resampling.BILINEAR)
              for each in large.reshape(6, 96, 90)]  # fmt: skip
    pictures = {folder: large, other: np.stack(scaled).reshape(1, 2, 3, *small)}

    def planned(folder, room):
        policy = load(folder, room)
        inputs = {STATE: th.zeros(1, 2, 2), ENVIRONMENT: th.zeros(1, 2, 3)}
        inputs[lerobot.IMAGE] = th.tensor(pictures[folder])
        with th.no_grad():
            return policy.plan(inputs, deterministic=True).numpy()

    plan = planned(folder, room)
    np.testing.assert_allclose(plan, planned(other, small_room), atol=1e-4)
    pictures[folder] = large[..., ::-1].copy()
    assert np.abs(planned(folder, room) - plan).max() > 1e-2
    changed(folder, crop_shape=[50, 40])
    with pytest.raises(InputError, match=r"crop_shape: \[50, 40\] is larger than .* \[48, 54\]"):
        load(folder, room)


@pytest.mark.parametrize("name", robomimic.POLICIES)
def test_policies_of_robomimic_act_as_there(name):
    seen = robomimic.observations()
    episode = [
        {key: each[step].astype(np.float32) for key, each in seen.items()}
        for step in range(robomimic.STEPS)
    ]
    actions = acted(load(HERE / f"{name}.pth", KITCHEN), episode)
    np.testing.assert_allclose(actions, recorded(name, "robomimic.json"), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "room"),
    [("act", ROOM), ("act_ensembled", ROOM), ("bc_rnn.pth", KITCHEN), ("diffusion_ddim", ROOM)],
)
def test_each_environment_has_a_memory_of_its_own(name, room):
    """An episode that starts later in another environment has the actions that it has alone."""
    policy = load(HERE / name, room)
    space = [room.seed(0), room][1]
    episode = [space.sample() for _ in range(6)]
    other = [space.sample() for _ in range(6)]

    def alone(observations):
        state, actions = None, []
        for observation in observations:
            action, state = policy.predict(observation, state=state, deterministic=True)
            actions.append(action)
        return np.stack(actions)

    state, actions = None, []
    for step in range(6):
        starts = np.array([step == 0, step in (0, 2)])
        both = [episode[step], (other[:2] + other)[step]]
        stacked = {key: np.stack([each[key] for each in both]) for key in room.spaces}
        action, state = policy.predict(stacked, state, starts, deterministic=True)
        actions.append(action)
    actions = np.stack(actions)
    np.testing.assert_allclose(actions[:, 0], alone(episode), atol=1e-5)
    np.testing.assert_allclose(actions[2:, 1], alone(other[:4]), atol=1e-5)


def test_inputs_are_numbers_of_an_array_where_the_user_says_so():
    flat = spaces.Box(-9, 9, (6,), np.float32)
    keys = {STATE: "4:6", ENVIRONMENT: "1:4"}
    episode = [
        np.concatenate([[7.0], each["environment_state"], each["agent_pos"]], dtype=np.float32)
        for each in episode_of_lerobot()
    ]
    actions = acted(load(HERE / "act", flat, keys=keys), episode)
    np.testing.assert_allclose(actions, recorded("act"), atol=1e-5)


def test_earlier_versions_of_lerobot_keep_the_normalization_among_the_weights(tmp_path):
    folder = Path(shutil.copytree(HERE / "diffusion", tmp_path / "old"))
    weights = load_file(folder / "model.safetensors")
    for path in folder.glob("policy_*"):
        inputs = "preprocessor" in path.name
        prefix = "normalize_inputs" if inputs else "unnormalize_outputs"
        if path.suffix == ".safetensors":
            for name, value in load_file(path).items():
                feature, _, statistic = name.rpartition(".")
                if (feature != "action") == inputs:
                    buffer = f"{prefix}.buffer_{feature.replace('.', '_')}.{statistic}"
                    weights[buffer] = value
        path.unlink()
    save_file(weights, folder / "model.safetensors")
    actions = acted(load(folder), episode_of_lerobot())
    np.testing.assert_allclose(actions, recorded("diffusion"), atol=1e-5)
    weights["normalize_inputs.buffer_observation_state.max"][0] = np.inf
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(InputError, match=r"its normalization is missing: observation\.state needs"):
        load(folder)


def changed(folder, **settings):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


DAMAGES = {
    "another policy": ({"type": "smolvla"}, "is of the type smolvla; .* read: act, diffusion"),
    "a chunk": ({"n_action_steps": 9}, "n_action_steps: 9 actions are longer than chunk_size, 5"),
    "a new setting": ({"magic": 1}, "magic: Extra inputs are not permitted"),
    "PEFT": ({"use_peft": True}, "use_peft: Input should be False"),
    "other sizes": ({"dim_model": 16}, "does not have the weights that config.json describes"),
    "huge sizes": ({"dim_feedforward": 2**16, "dim_model": 2**14}, "does not have the weights"),
    "ensembling": ({"temporal_ensemble_coeff": 0.1}, "n_action_steps: must be 1 with temporal"),
}


@pytest.mark.parametrize(("settings", "message"), DAMAGES.values(), ids=DAMAGES)
def test_settings_that_cannot_be_carried_out_are_refused(tmp_path, settings, message):
    folder = Path(shutil.copytree(HERE / "act", tmp_path / "act"))
    changed(folder, **settings)
    with pytest.raises(InputError, match=message):
        load(folder)


def remove_weights(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def remove_statistics(folder):
    next(folder.glob("policy_post*.safetensors")).unlink()


def remove_processors(folder):
    for path in folder.glob("policy_*"):
        path.unlink()


def remove_one_processor(folder):
    (folder / "policy_postprocessor.json").unlink()


def empty_statistics(folder):
    save_file({"a.b": th.zeros(1)}, next(folder.glob("policy_pre*.safetensors")))


def add_a_step(folder):
    path = folder / "policy_preprocessor.json"
    document = json.loads(path.read_text())
    document["steps"].append({"registry_name": "tokenizer_processor", "config": {}})
    path.write_text(json.dumps(document))


def normalize_otherwise(folder):
    path = folder / "policy_preprocessor.json"
    path.write_text(path.read_text().replace('"ENV": "MIN_MAX"', '"ENV": "MEAN_STD"'))


def leave_the_folder(folder):
    path = folder / "policy_preprocessor.json"
    path.write_text(re.sub(r'"state_file": "', '"state_file": "../', path.read_text()))


FILES = {
    "a pickle": (remove_weights, "no such file; pytorch_model.bin is a pickle, which is not read"),
    "no statistics": (remove_statistics, "it has the normalization of the policy"),
    "no processors": (remove_processors, "its normalization is missing: observation.state needs"),
    "one processor": (remove_one_processor, "policy_postprocessor.json: cannot be read"),
    "other statistics": (empty_statistics, "observation.state needs mean"),
    "a step": (add_a_step, "has the step tokenizer_processor, which cannot be carried out"),
    "other modes": (normalize_otherwise, "norm_map: differs from normalization_mapping"),
    "a path": (leave_the_folder, "state_file: must name a file in the same folder"),
}


@pytest.mark.parametrize(("damage", "message"), FILES.values(), ids=FILES)
def test_damaged_folders_are_refused(tmp_path, damage, message):
    folder = Path(shutil.copytree(HERE / "act", tmp_path / "act"))
    damage(folder)
    with pytest.raises(InputError, match=message):
        load(folder)


WRONG_ROOMS = {
    "actions": (
        {"actions": spaces.Discrete(2)}, r"actions of shape \[2\], but the .* takes Discrete"),
    "a shape": (
        {"room": spaces.Dict({**ROOM.spaces, "agent_pos": ENVIRONMENT_BOX})},
        r"needs observation.state of shape \[2\], but agent_pos of the environment has \[3\]",
    ),
    "a name": (
        {"room": spaces.Dict({"x": STATE_BOX, "environment_state": ENVIRONMENT_BOX})},
        "lack; they have environment_state, x; name the right one by --observation-key "
        "observation.state=KEY",
    ),
    "a misnamed input": (
        {"keys": {"observation.states": "agent_pos"}, "room": spaces.Dict({"x": STATE_BOX})},
        "observation.state=KEY; it has no input observation.states",
    ),
    "a misnamed input of an array": (
        {"room": ENVIRONMENT_BOX, "keys": {ENVIRONMENT: "0:3", "state": "1:3"}},
        "observation.state=0:2; it has no input state",
    ),
    "a nested dictionary": (
        {"room": spaces.Dict({"agent_pos": spaces.Dict({"x": STATE_BOX}), "y": STATE_BOX})},
        r"needs observation.state of shape \[2\], but agent_pos of the environment has Dict",
    ),
    "no arrays": ({"room": spaces.Discrete(5)}, "observations that are arrays, not Discrete"),
    "a wrong key": ({"keys": {STATE: "y"}}, "observation.state=y: .* have no y, only"),
    "one array": (
        {"room": ENVIRONMENT_BOX}, "are one array .* such as --observation-key observation.state=0"
    ),
    "no range": (
        {"room": ENVIRONMENT_BOX, "keys": {STATE: "a"}}, "write observation.state=FIRST:END"
    ),
    **{
        f"range {given}": (
            {"room": ENVIRONMENT_BOX, "keys": {STATE: given}},
            "must be 2 of an observation's 3 numbers",
        )
        for given in ("2:4", "2:0", "0:0", "0:3")
    },
    **{
        f"no range {given!r}": (
            {"room": ENVIRONMENT_BOX, "keys": {STATE: given}},
            "write observation.state=FIRST:END",
        )
        for given in ("0:", "-1:1", "0:2:1", "0:2 ", "[0:2]", "0:99999999", "\uff10:\uff12")
    },
}  # fmt: skip


@pytest.mark.parametrize(("given", "message"), WRONG_ROOMS.values(), ids=WRONG_ROOMS)
def test_other_environments_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        load(HERE / "act", **given)


def resaved(tmp_path, change):
    """Writes a checkpoint of robomimic with changed content."""
    content = th.load(HERE / "bc.pth", weights_only=True)
    change(content)
    th.save(content, tmp_path / "bc.pth")
    return tmp_path / "bc.pth"


def with_config(change):
    def apply(content):
        config = json.loads(content["config"])
        change(config)
        content["config"] = json.dumps(config)

    return apply


CHECKPOINTS = {
    "another algorithm": (
        lambda c: c.update(algo_name="iql"), "is of the algorithm iql; .* read: bc"
    ),
    "images": (
        with_config(lambda c: c["observation"]["modalities"]["obs"].update(rgb=["eye"])),
        "has images as eye, which cannot be read",
    ),
    "a transformer": (
        with_config(lambda c: c["algo"]["transformer"].update(enabled=True)),
        "has a network of the kind transformer",
    ),
    "no statistics": (
        lambda c: c["obs_normalization_stats"].pop("object"),
        "its normalization is missing: there are no statistics of object",
    ),
    "other weights": (lambda c: c["model"].popitem(), "does not have the weights that its"),
    "no weights": (lambda c: c.update(model=3), "model: is not a mapping"),
    "other frames": (with_config(lambda c: c["train"].update(frame_stack=2)), "train.frame_stack"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_other_checkpoints_of_robomimic_are_refused(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        load(resaved(tmp_path, change), KITCHEN)


def test_later_versions_of_robomimic_have_networks_and_scales_by_other_names(tmp_path):
    def later(content):
        content["model"] = {"nets": content["model"], "optimizers": {}}
        for own in content["obs_normalization_stats"].values():
            own["offset"], own["scale"] = own.pop("mean"), own.pop("std")
        content["action_normalization_stats"] = {
            "actions": {"offset": [[1.0, 2.0]], "scale": [[2.0, 4.0]]}
        }

    seen = {key: each[0].astype(np.float32) for key, each in robomimic.observations().items()}
    actions = acted(load(resaved(tmp_path, later), KITCHEN), [seen])
    due = recorded("bc", "robomimic.json")[:1] * [2, 4] + [1, 2]
    np.testing.assert_allclose(actions, due, atol=1e-5)


@pytest.mark.parametrize(("name", "kind"), [("act", "lerobot"), ("bc.pth", "robomimic")])
def test_policies_of_other_tools_are_not_converted(tmp_path, name, kind):
    with pytest.raises(InputError, match=f"of the format {kind}, which is not converted"):
        convert_expert(HERE / name, tmp_path / "out")


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_pickles_in_checkpoints_are_not_executed(tmp_path, legacy):
    content = th.load(HERE / "bc.pth", weights_only=True)
    content["variable_state"] = Bomb(tmp_path / "mark")
    path = tmp_path / "bc.pth"
    path.write_bytes(tensor_file(content, _use_new_zipfile_serialization=not legacy))
    said = "is not a zip of torch.save" if legacy else "its pickle .* refers to .*open"
    with pytest.raises(InputError, match=said):
        load(path, KITCHEN)
    assert not (tmp_path / "mark").exists()


def test_tensors_that_claim_more_numbers_than_they_have_are_refused(tmp_path):
    def repeat(content):
        name = next(iter(content["model"]))
        content["model"][name] = th.zeros(1).expand(10**5, 10**7)

    with pytest.raises(InputError, match=r"is not a plain tensor .*not dense"):
        load(resaved(tmp_path, repeat), KITCHEN)
    files = read_zip(HERE / "bc.pth")
    short = {name: data[:4] if name == "bc/data/0" else data for name, data in files.items()}
    with pytest.raises(InputError, match=r"declares 40 numbers of 4 bytes"):
        load(write_zip(tmp_path / "short.pth", short), KITCHEN)
