"""Stored reward networks: the same rewards after a round trip; malicious files are refused."""

import functools
import json

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from safetensors.torch import load_file, save_file
from torch import nn

from imitbench.errors import InputError
from imitbench.rewards.agent_rewards import CoherentRewardNet, InverseSoftQRewardNet
from imitbench.rewards.density import DensityRewardNet
from imitbench.rewards.networks import ConstantRewardNet
from imitbench.rewards.reward_nets import (
    AddSTDRewardWrapper,
    BasicPotentialCNN,
    BasicPotentialMLP,
    BasicRewardNet,
    BasicShapedRewardNet,
    CnnRewardNet,
    NormalizedRewardNet,
    RewardEnsemble,
    ShapedRewardNet,
)
from imitbench.rewards.storage import load_reward_net, save_reward
from imitbench.rewards.tabular import TabularRewardNet
from imitbench.rewards.wrappers import RewardNetFromDiscriminatorLogit
from imitbench.util.networks import EMANorm, RunningNorm
from imitbench.util.tensor_storage import digest

VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float32)
TORQUE = spaces.Box(-2.0, 2.0, (2,), np.float32)
CHOICE = spaces.Discrete(3)
IMAGE = spaces.Box(0, 255, (4, 5, 3), np.uint8)
CHANNELS_FIRST = spaces.Box(0, 255, (3, 4, 5), np.uint8)


def basic(**kwargs):
    return BasicRewardNet(VECTOR, CHOICE, **kwargs)


def ensemble():
    return RewardEnsemble(
        VECTOR, CHOICE, [NormalizedRewardNet(basic(hid_sizes=[n]), RunningNorm) for n in (3, 4)]
    )


def soft_q(actions):
    shape = {"hid_sizes": [4], "n_critics": 2, "discount": 0.9}
    return InverseSoftQRewardNet(VECTOR, actions, **shape, value_bound=3.0, least_value=True)


NETS = {
    "constant": lambda: ConstantRewardNet(VECTOR, CHOICE, -0.5),
    "table": lambda: TabularRewardNet(spaces.Discrete(4, start=2), CHOICE, np.arange(2, 6)),
    "density": lambda: DensityRewardNet(
        VECTOR,
        TORQUE,
        kernel="gaussian",
        bandwidth=0.5,
        n_points=3,
        use_action=True,
        use_next_state=True,
    ),
    "soft Q-values": lambda: soft_q(TORQUE),
    "soft Q-values of choices": lambda: soft_q(CHOICE),
    "coherent": lambda: CoherentRewardNet(
        VECTOR, TORQUE, hid_sizes=[4], reward_scale=0.5, least_std=0.1, least_reward=-5.0
    ),
    "basic": lambda: basic(use_next_state=True, use_done=True, hid_sizes=iter([5])),
    "box actions": lambda: BasicRewardNet(VECTOR, TORQUE, activation=nn.Tanh, dropout_prob=0.1),
    "choices": lambda: BasicRewardNet(
        spaces.Discrete(4, start=2), spaces.MultiDiscrete([2, 3], start=[1, 0]), name="net"
    ),
    "input norm": lambda: basic(normalize_input_layer=RunningNorm, activation=nn.Softplus),
    "input ema norm": lambda: basic(normalize_input_layer=EMANorm),
    "double": lambda: basic().double(),
    "cnn": lambda: CnnRewardNet(IMAGE, CHOICE, use_done=True, hid_channels=[4], kernel_size=5),
    "cnn channels first": lambda: CnnRewardNet(
        CHANNELS_FIRST, CHOICE, use_state=False, use_next_state=True, hwc_format=False
    ),
    "of a discriminator": lambda: RewardNetFromDiscriminatorLogit(basic()),
    "logit of a discriminator": lambda: RewardNetFromDiscriminatorLogit(basic(), "logit"),
    "spectral norm": lambda: basic(spectral_norm=True, normalize_input_layer=RunningNorm),
    "larger slopes": lambda: basic(spectral_norm=True, lipschitz=3.0),
    "hidden entries": lambda: BasicShapedRewardNet(
        VECTOR, CHOICE, hidden_entries=[0, 2], use_next_state=True, spectral_norm=True
    ),
    "shaped": lambda: ShapedRewardNet(basic(), BasicPotentialMLP(VECTOR, [4]), 0.9),
    "shaped cnn": lambda: ShapedRewardNet(
        CnnRewardNet(IMAGE, CHOICE), BasicPotentialCNN(IMAGE, [4], kernel_size=1), 0.5
    ),
    "basic shaped": lambda: BasicShapedRewardNet(
        VECTOR,
        TORQUE,
        reward_hid_sizes=[3],
        potential_hid_sizes=[2, 2],
        use_next_state=True,
        discount_factor=0.8,
        normalize_input_layer=RunningNorm,
    ),
    "normalized": lambda: NormalizedRewardNet(basic(), RunningNorm),
    "normalized shaped": lambda: NormalizedRewardNet(BasicShapedRewardNet(VECTOR, CHOICE), EMANorm),
    "normalized by nothing": lambda: NormalizedRewardNet(basic(), nn.Identity),
    "ensemble": ensemble,
    "std added": lambda: AddSTDRewardWrapper(ensemble(), default_alpha=-0.5),
    "all": lambda: NormalizedRewardNet(AddSTDRewardWrapper(ensemble(), 0.5), RunningNorm),
}


def transitions(net, number=7):
    """Random transitions of a network's spaces."""
    parts = []
    for space in (net.observation_space, net.action_space, net.observation_space):
        space.seed(len(parts))
        parts.append(np.stack([space.sample() for _ in range(number)]))
    return (*parts, np.arange(number) % 2 == 0)


def learn_statistics(net, batch):
    net.predict_processed(*batch)
    if not isinstance(net, RewardEnsemble | AddSTDRewardWrapper | NormalizedRewardNet):
        net(*net.preprocess(*batch))


@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
def test_a_network_gives_the_same_rewards_after_a_round_trip(tmp_path, make):
    net = make()
    batch = transitions(net)
    learn_statistics(net, batch)
    save_reward(net, tmp_path / "reward")
    again = load_reward_net(tmp_path / "reward")
    assert type(again) is type(net)
    assert repr(again) == repr(net.eval())
    assert (again.observation_space, again.action_space) == (
        net.observation_space,
        net.action_space,
    )
    assert again.dtype == net.dtype
    assert [p.requires_grad for p in again.parameters()] == [
        p.requires_grad for p in net.parameters()
    ]
    for method in ("predict", "predict_processed"):
        for kwargs in ({}, {"update_stats": False}) if method == "predict_processed" else ({},):
            np.testing.assert_array_equal(
                getattr(again, method)(*batch, **kwargs), getattr(net, method)(*batch, **kwargs)
            )


def test_a_loaded_network_is_in_evaluation_mode_and_can_be_trained_further(tmp_path):
    net = BasicShapedRewardNet(VECTOR, CHOICE)
    save_reward(net, tmp_path)
    again = load_reward_net(tmp_path)
    assert not any(part.training for part in again.modules())
    again.train()
    again(*again.preprocess(*transitions(again))).sum().backward()
    assert all(p.grad is not None for p in again.parameters())
    assert again.discount_factor == 0.99


def test_loading_draws_no_random_numbers(tmp_path):
    save_reward(basic(), tmp_path)
    th.manual_seed(3)
    load_reward_net(tmp_path)
    drawn = th.rand(2)
    th.manual_seed(3)
    assert th.equal(drawn, th.rand(2))


def test_a_newer_network_replaces_an_older_one(tmp_path):
    save_reward(basic(hid_sizes=[3]), tmp_path)
    newer = NormalizedRewardNet(basic(hid_sizes=[7]), EMANorm)
    save_reward(newer, tmp_path)
    batch = transitions(newer)
    np.testing.assert_array_equal(load_reward_net(tmp_path).predict(*batch), newer.predict(*batch))


class Mine(BasicRewardNet):
    pass


class MyActivation(nn.ReLU):
    pass


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Mine(VECTOR, CHOICE), "Mine"),
        (lambda: NormalizedRewardNet(Mine(VECTOR, CHOICE), RunningNorm), "Mine"),
        (lambda: basic(activation=MyActivation), "MyActivation"),
        (lambda: NormalizedRewardNet(basic(), functools.partial(EMANorm, decay=0.9)), "decay"),
        (lambda: ShapedRewardNet(basic(), my_potential, 0.9), "my_potential"),
        (lambda: ShapedRewardNet(basic(), nn.Linear(3, 1), 0.9), "Linear"),
    ],
)
def test_unsupported_parts_are_named_and_nothing_is_written(tmp_path, make, named):
    with pytest.raises(ValueError, match=f"{named}.* cannot be stored"):
        save_reward(make(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def my_potential(state):
    return state[:, 0]


@pytest.fixture
def stored(tmp_path):
    save_reward(NormalizedRewardNet(BasicShapedRewardNet(VECTOR, CHOICE), RunningNorm), tmp_path)
    return tmp_path


@pytest.mark.parametrize("length", [0, 100, -1])
def test_a_truncated_weights_file_is_refused(stored, length):
    weights = stored / "reward.safetensors"
    weights.write_bytes(weights.read_bytes()[:length])
    with pytest.raises(InputError, match="truncated or altered"):
        load_reward_net(stored)


def test_one_flipped_bit_is_detected(stored):
    weights = stored / "reward.safetensors"
    data = bytearray(weights.read_bytes())
    data[-5] ^= 1
    weights.write_bytes(data)
    with pytest.raises(InputError, match="truncated or altered"):
        load_reward_net(stored)


def test_a_truncated_description_is_refused(stored):
    path = stored / "reward.json"
    path.write_text(path.read_text()[:-40])
    with pytest.raises(InputError, match=r"reward\.json"):
        load_reward_net(stored)


def test_missing_files_are_refused(stored):
    with pytest.raises(InputError, match=r"no such file; is .* the folder of a reward network"):
        load_reward_net(stored / "absent")
    with pytest.raises(InputError, match=r"reward\.json: a file; pass its folder, "):
        load_reward_net(stored / "reward.json")
    (stored / "reward.safetensors").unlink()
    with pytest.raises(InputError, match=r"reward\.safetensors"):
        load_reward_net(stored)


BASE = ["net", "arguments", "base"]
DEEP = functools.reduce(lambda inner, _: {"base": inner}, range(150), {})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["net", "$module"], "os.system", "not known"),
        ([*BASE, "$module"], "RewardNet", "not known"),
        (["net", "arguments", "normalize_output_layer"], {"$type": "os.system"}, "not known"),
        (["net", "arguments", "surprise"], 1, "does not describe its weights"),
        ([*BASE, "arguments", "reward_hid_sizes"], [3], "does not describe its weights"),
        ([*BASE, "arguments", "reward_hid_sizes"], [10**15], "does not describe its weights"),
        ([*BASE, "arguments", "reward_hid_sizes"], [10**30], "does not describe its weights"),
        ([*BASE, "arguments", "reward_hid_sizes"], [-3], "does not describe its weights"),
        ([*BASE, "arguments", "activation"], 3, "does not describe its weights"),
        ([*BASE, "arguments", "discount_factor"], "much", "does not describe its weights"),
        ([*BASE, "arguments", "observation_space"], {"$space": {"type": "Torus"}}, "unknown kind"),
        ([*BASE, "arguments", "observation_space"], {"$space": 3}, "does not describe"),
        (BASE, {"$type": "RunningNorm"}, "does not describe its weights"),
        (["net"], {"$type": "RunningNorm"}, "not a reward network"),
        (["net"], {"$space": {"type": "Discrete", "n": 3, "start": 0}}, "not a reward network"),
        (["net"], DEEP, "not a reward network"),
        (["net"], [], "net"),
        (["extra"], 1, "extra"),
        (["version"], 2, "version"),
        (["weights", "file"], "../../other.safetensors", "file"),
    ],
)
def test_invalid_descriptions_are_refused(stored, path, value, message):
    file = stored / "reward.json"
    document = json.loads(file.read_text())
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message) as caught:
        load_reward_net(stored)
    assert "\n" not in str(caught.value)


def replace_weights(folder, tensors):
    """Replaces the weights and their digest."""
    save_file(tensors, folder / "reward.safetensors")
    file = folder / "reward.json"
    document = json.loads(file.read_text())
    document["weights"]["sha256"] = digest((folder / "reward.safetensors").read_bytes())
    file.write_text(json.dumps(document))


@pytest.mark.parametrize("change", ["missing", "superfluous", "shape", "integer", "count"])
def test_weights_that_do_not_fit_are_refused_even_with_a_matching_digest(stored, change):
    tensors = load_file(stored / "reward.safetensors")
    name = next(key for key in tensors if key.endswith("dense0.weight"))
    count = "normalize_output_layer.count"
    if change == "missing":
        del tensors[name]
    elif change == "superfluous":
        tensors["more"] = th.zeros(1)
    elif change == "shape":
        tensors[name] = tensors[name].T.contiguous()
    elif change == "integer":
        tensors[name] = tensors[name].long()
    else:
        tensors[count] = tensors[count].double()
    replace_weights(stored, tensors)
    with pytest.raises(InputError, match="does not describe its weights") as caught:
        load_reward_net(stored)
    assert "\n" not in str(caught.value)


def test_another_kind_of_file_is_refused_even_with_a_matching_digest(stored):
    (stored / "reward.safetensors").write_bytes(b"no tensors here")
    document = json.loads((stored / "reward.json").read_text())
    document["weights"]["sha256"] = digest(b"no tensors here")
    (stored / "reward.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="not a safetensors file"):
        load_reward_net(stored)


def test_a_file_of_the_reference_is_explained_in_one_line(tmp_path):
    path = tmp_path / "reward.pt"
    path.write_bytes(b"PK")
    with pytest.raises(InputError, match=r"save its state_dict\(\) there") as caught:
        load_reward_net(path)
    assert "\n" not in str(caught.value)


def test_weights_of_the_reference_fit():
    """Their names and shapes are those of `imitation` 1.0.1."""
    net = NormalizedRewardNet(
        BasicShapedRewardNet(VECTOR, spaces.Discrete(2), normalize_input_layer=RunningNorm),
        RunningNorm,
    )

    def norm(prefix, size):
        sizes = {"running_mean": (size,), "running_var": (size,), "count": ()}
        return {f"{prefix}.{name}": shape for name, shape in sizes.items()}

    def dense(prefix, inputs, outputs):
        return {f"{prefix}.weight": (outputs, inputs), f"{prefix}.bias": (outputs,)}

    reward, potential = "_base._base.mlp", "_base.potential._potential_net"
    assert {name: tuple(value.shape) for name, value in net.state_dict().items()} == {
        **norm(f"{reward}.normalize_input", 5),
        **dense(f"{reward}.dense0", 5, 32),
        **dense(f"{reward}.dense_final", 32, 1),
        **norm(f"{potential}.normalize_input", 3),
        **dense(f"{potential}.dense0", 3, 32),
        **dense(f"{potential}.dense1", 32, 32),
        **dense(f"{potential}.dense_final", 32, 1),
        **norm("normalize_output_layer", 1),
    }


@pytest.mark.parametrize("name", ["spectral norm", "larger slopes"])
def test_reading_iterates_nothing_and_draws_no_random_numbers(name, tmp_path, monkeypatch):
    """On the meta device, a power iteration would import torch's compiler, which takes seconds."""
    save_reward(NETS[name](), tmp_path)
    iterated = []

    def iterate(self, weight, steps):
        iterated.append(weight.is_meta)

    monkeypatch.setattr(nn.utils.parametrizations._SpectralNorm, "_power_method", iterate)
    before = th.get_rng_state()
    net = load_reward_net(tmp_path)
    assert not any(iterated)
    assert th.equal(th.get_rng_state(), before)
    assert next(each.in_features for each in net.modules() if isinstance(each, nn.Linear)) == 6
