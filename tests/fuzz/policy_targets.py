"""Targets of the readers of policies, rewards and spaces."""

import base64
import io
import json
import pickle
import shutil
import struct
import zipfile
from functools import cache

import numpy as np
import torch as th
from gymnasium import spaces
from hypothesis import strategies as st
from near_files import NUMBERS, ROOT, TEXTS, VALUES, changed, damaged
from safetensors.torch import save

from imitbench.errors import InputError
from imitbench.policies.expert import Spaces, load_expert_policy
from imitbench.policies.observation_statistics import read_observation_statistics
from imitbench.policies.sb3_objects import stored_space
from imitbench.policies.sb3_zip import read_sb3_zip
from imitbench.policies.storage import load_policy
from imitbench.rewards.storage import load_reward_net
from imitbench.util.spaces import space_from_json
from imitbench.util.tensor_storage import digest

ROBOTS = ROOT / "tests" / "policies" / "robot_policies"


INSTRUCTIONS = [
            b"(", b"N", b"K\x05", b"]", b"}", b")", b"\x94", b"h\x00", b"h\x01", b"t", b"l", b"d",
            b"\x85", b"\x86", b"\x87", b"a", b"e", b"s", b"u", b"0", b"1", b"2", b"R", b"b",
            b"\x81", b"\x92", b"\x90", b"\x91", b"cnumpy\ndtype\n", b"cos\nsystem\n", b"\x93",
            b"cnumpy.core.multiarray\n_reconstruct\n", b"cgymnasium.spaces.box\nBox\n",
            b"\x8c\x02f1", b"\x8c\x02f8", b"C\x08\0\0\0\0\0\0\0\0", b"I10\n", b"L99999999999L\n",
            b"G\x7f\xf8\0\0\0\0\0\0", b"\x8a\x09\0\0\0\0\0\0\0\0\x01", b"(lp0\n", b"Pid\n", b"Q",
        ]  # fmt: skip


def pickled(draw):
    """A program of the pickle machine."""
    steps = draw(st.lists(st.sampled_from(INSTRUCTIONS), min_size=1, max_size=25))
    return b"\x80\x04" + b"".join(steps) + b"."


def real_pickle(draw):
    return damaged(draw(st.sampled_from(real_pickles())), draw)


@cache
def real_pickles():
    """Pickles of real objects; made once, because their length may differ from time to time."""
    made = [
        spaces.Box(-1, 1, (2,)), spaces.Discrete(3), spaces.MultiBinary(2),
        spaces.Dict({"a": spaces.Box(0, 1, (2, 2))}), np.zeros(3), {"a": np.float64(1)},
    ]  # fmt: skip
    return [pickle.dumps(each, protocol=number) for each in made for number in range(2, 6)]


def statistics(folder, draw):
    path = folder / "vec_normalize.pkl"
    path.write_bytes(draw(st.sampled_from([pickled, real_pickle]))(draw))
    read_observation_statistics(path)


def sb3_zip(folder, draw):
    space = {
        ":type:": draw(st.sampled_from(["<class 'gymnasium.spaces.box.Box'>",
                                        "<class 'gym.spaces.discrete.Discrete'>"])),
        ":serialized:": base64.b64encode(draw(st.sampled_from([pickled, real_pickle]))(draw))
        .decode(),
        "dtype": draw(st.sampled_from(["float32", "uint8", "f1"])),
        "_shape": draw(st.sampled_from([[2], "(2,)", "[nan]", "[inf]", [1] * 70, "(-1,)"])),
        "low": draw(st.sampled_from(["[-1. -1.]", "[nan nan]", "[9. 9.]"])),
        "high": "[1. 1.]", "n": draw(TEXTS | NUMBERS), "start": draw(NUMBERS),
    }  # fmt: skip
    data = {"observation_space": space, "action_space": space, "policy_class": draw(VALUES)}
    weights = io.BytesIO()
    th.save({"a": th.zeros(3)}, weights)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("data", json.dumps(data))
        archive.writestr("policy.pth", damaged(weights.getvalue(), draw))
    path = folder / "model.zip"
    path.write_bytes(damaged(stream.getvalue(), draw))
    archive = read_sb3_zip(path)
    stored_space(archive, "observation_space")


BOX = {"type": "Box", "shape": [2], "dtype": "float32", "low": [-1.0], "high": [1.0]}
KWARGS = {"net_arch": [4], "log_std_init": 0.0, "ortho_init": False, "use_sde": False}


def tensors(draw):
    good = save({"0.weight": th.zeros(1, 2), "0.bias": th.zeros(1)})
    if draw(st.booleans()):
        return damaged(good, draw)
    header = {
        draw(st.sampled_from(["0.weight", "0.bias", "x"])): {
            "dtype": draw(st.sampled_from(["F32", "F4", "F8_E8M0", "BOOL", "C64", "x"])),
            "shape": draw(st.lists(st.sampled_from([0, 1, 2, -1, 2**62]), max_size=70)),
            "data_offsets": draw(st.lists(st.sampled_from([0, 8, 2**62]), min_size=2, max_size=2)),
        }
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(8)


def policy(folder, draw):
    content = tensors(draw)
    name = draw(
        st.sampled_from(
            [
                "ActorCriticPolicy",
                "SACPolicy",
                "DQNPolicy",
                "RandomPolicy",
                "ObservationTabularPolicy",
                "MixturePolicy",
                "ZeroPolicy",
            ]
        )
    )
    document = changed(
        {
            "policy_class": name, "observation_space": BOX, "action_space": BOX,
            "kwargs": draw(st.sampled_from([{}, KWARGS])),
            "weights": {"sha256": digest(content)},
            "normalization": {"epsilon": 1e-8, "clip_obs": 10.0},
        },
        draw,
    )  # fmt: skip
    (folder / "policy.json").write_text(json.dumps(document))
    (folder / "policy.safetensors").write_bytes(content)
    load_policy(folder)


def foreign(folder, draw):
    document = changed(
        {
            "format": "imitbench-foreign-policy", "kind": "layers", "file": "w.safetensors",
            "output": draw(st.sampled_from(["actions", "logits", "gaussian"])),
            "observation_space": BOX, "action_space": BOX,
        },
        draw,
    )  # fmt: skip
    (folder / "policy.json").write_text(json.dumps(document))
    (folder / "w.safetensors").write_bytes(tensors(draw))
    load_policy(folder)


def reward(folder, draw):
    content = tensors(draw)
    net = {"$module": "BasicRewardNet", "arguments": {"observation_space": {"$space": BOX},
           "action_space": {"$space": BOX}, "hid_sizes": [4]}}  # fmt: skip
    document = changed({"net": net, "weights": {"sha256": digest(content)}}, draw)
    (folder / "reward.json").write_text(json.dumps(document))
    (folder / "reward.safetensors").write_bytes(content)
    load_reward_net(folder)


def space(folder, draw):
    kinds = [
        BOX,
        {"type": "Discrete", "n": 2, "start": 0},
        {"type": "MultiBinary", "n": [2]},
        {"type": "MultiDiscrete", "nvec": [2, 3]},
        {"type": "Dict", "spaces": {"a": BOX}},
    ]
    try:
        space_from_json(changed(draw(st.sampled_from(kinds)), draw))
    except ValueError as error:
        raise InputError(str(error)) from error


STATE, OBJECT = (spaces.Box(-9, 9, (size,), np.float32) for size in (2, 3))
ROBOT_ACTIONS = spaces.Box(-99, 99, (2,), np.float32)
LEROBOT_ROOM = spaces.Dict({"agent_pos": STATE, "environment_state": OBJECT})
ROBOMIMIC_ROOM = spaces.Dict({"robot0_eef_pos": STATE, "object": OBJECT})


def acts_if_read(path, room):
    """Reads a policy of another tool; one that is read must act."""
    policy = load_expert_policy(path, Spaces(room, ROBOT_ACTIONS))
    seen = {key: np.zeros(each.shape, each.dtype) for key, each in room.spaces.items()}
    policy.predict(seen)


def lerobot(folder, draw):
    shutil.copytree(ROBOTS / draw(st.sampled_from(["act", "diffusion_ddim"])), folder / "a")
    files = sorted((folder / "a").iterdir())
    for path in draw(st.lists(st.sampled_from(files), min_size=1, max_size=2, unique=True)):
        content = path.read_bytes()
        if path.suffix == ".json" and draw(st.integers(0, 3)):
            content = json.dumps(changed(json.loads(content), draw)).encode()
        elif draw(st.integers(0, 3)) == 0:
            content = tensors(draw)
        path.write_bytes(damaged(content, draw))
    acts_if_read(folder / "a", LEROBOT_ROOM)


@cache
def checkpoint(name):
    return th.load(ROBOTS / name, weights_only=True)


def robomimic(folder, draw):
    """The settings that change how a policy acts are a small part, so that these are changed."""
    content = dict(checkpoint(draw(st.sampled_from(["bc.pth", "bc_rnn_gmm.pth"]))))
    part = draw(st.sampled_from(["algo", "observation", "train", "shape_metadata", ""]))
    if part == "shape_metadata":
        content[part] = changed(content[part], draw)
    elif part:
        settings = json.loads(content["config"])
        content["config"] = json.dumps({**settings, part: changed(settings[part], draw)})
    stream = io.BytesIO()
    th.save(content, stream)
    path = folder / "a.pth"
    path.write_bytes(stream.getvalue() if part else damaged(stream.getvalue(), draw))
    acts_if_read(path, ROBOMIMIC_ROOM)
