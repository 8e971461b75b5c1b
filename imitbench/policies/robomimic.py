"""Reads behavior cloning of robomimic from its checkpoints, without unpickling.

A checkpoint is a file of `torch.save` with the weights and the settings, as JSON. Policies of
low-dimensional observations are read: `bc` with a deterministic, Gaussian or mixture head, with and
without a recurrent network (Mandlekar et al. 2021, Appendix B). The networks are this package's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium as gym
import torch as th
from gymnasium import spaces
from pydantic import AliasPath, BaseModel, Field, ValidationError
from torch import nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal
from torch.nn import functional

from imitbench.errors import InputError
from imitbench.policies.bounded_construction import allocations_limited_by, check_finite
from imitbench.policies.observation_parts import Feature, Part, find_parts
from imitbench.policies.stateful import State, StatefulPolicy
from imitbench.util.text_line import one_line
from imitbench.util.torch_archive import TorchArchive, read_torch_archive
from imitbench.util.validation_errors import first_problem

_Size = Annotated[int, Field(ge=1, le=2**16)]
_Positive = Annotated[float, Field(gt=0)]
_LOW_NOISE = 1e-4
_MEAN_LIMIT, _MOST_STD = 9.0, 7.5


class _Part(BaseModel, frozen=True):
    """A part of the settings. What training alone needs is not read."""


class _Enabled(_Part):
    enabled: bool = False


class _Gaussian(_Enabled):
    fixed_std: bool = False
    init_std: _Positive = 0.1
    min_std: _Positive = 0.01
    std_activation: Literal["softplus", "exp"] = "softplus"
    low_noise_eval: bool = True


class _Mixture(_Enabled):
    num_modes: _Size = 5
    min_std: _Positive = 0.0001
    std_activation: Literal["softplus", "exp"] = "softplus"
    low_noise_eval: bool = True


class _Recurrent(_Enabled):
    horizon: _Size = 10
    hidden_dim: _Size = 400
    rnn_type: Literal["LSTM", "GRU"] = "LSTM"
    num_layers: Annotated[int, Field(ge=1, le=100)] = 2
    open_loop: bool = False
    bidirectional: Literal[False] = Field(
        default=False, validation_alias=AliasPath("kwargs", "bidirectional")
    )


class _Algorithm(_Part):
    actor_layer_dims: list[_Size]
    gaussian: _Gaussian = _Gaussian()
    gmm: _Mixture = _Mixture()
    vae: _Enabled = _Enabled()
    rnn: _Recurrent
    transformer: _Enabled = _Enabled()


class _Modalities(_Part):
    obs: dict[str, list[str]]
    goal: dict[str, list[str]] = {}


class _Observation(_Part):
    modalities: _Modalities


class _Train(_Part):
    frame_stack: Literal[1] = 1
    action_keys: list[str] = ["actions"]
    action_config: dict[str, dict[str, Any]] = {}


class _Settings(_Part):
    algo: _Algorithm
    observation: _Observation
    train: _Train


class _Network(nn.Module):
    """Recurrent network, layers and heads, with the names of robomimic's weights."""

    def __init__(self, algo: _Algorithm, inputs: int, action_size: int) -> None:
        super().__init__()
        self.nets = nn.ModuleDict()
        size = inputs
        if algo.rnn.enabled:
            made = nn.LSTM if algo.rnn.rnn_type == "LSTM" else nn.GRU
            size = algo.rnn.hidden_dim
            memory = made(inputs, size, algo.rnn.num_layers, batch_first=True)
            self.nets["rnn"] = nn.ModuleDict({"nets": memory})
        layers: list[nn.Module] = []
        for width in algo.actor_layer_dims:
            layers += [nn.Linear(size, width), nn.ReLU()]
            size = width
        if layers:
            self.nets["mlp"] = nn.ModuleDict({"_model": nn.Sequential(*layers)})
        modes = algo.gmm.num_modes
        heads = {"action": action_size}
        if algo.gaussian.enabled:
            heads = {"mean": action_size, "scale": action_size}
        elif algo.gmm.enabled:
            heads = {"mean": modes * action_size, "scale": modes * action_size, "logits": modes}
        decoders = nn.ModuleDict({name: nn.Linear(size, count) for name, count in heads.items()})
        self.nets["decoder"] = nn.ModuleDict({"nets": decoders})

    @property
    def memory(self) -> nn.RNNBase | None:
        """The recurrent network; `None` without one."""
        found = self.nets["rnn"]["nets"] if "rnn" in self.nets else None  # type: ignore[index]
        assert found is None or isinstance(found, nn.RNNBase)
        return found

    def forward(self, x: th.Tensor) -> dict[str, th.Tensor]:
        """Maps the input, or the output of the recurrent network, to that of each head."""
        if "mlp" in self.nets:
            x = self.nets["mlp"]["_model"](x)  # type: ignore[index]
        heads = self.nets["decoder"]["nets"]  # type: ignore[index]
        return {name: head(x) for name, head in heads.items()}


class RobomimicPolicy(StatefulPolicy):
    """A policy of robomimic.

    A recurrent network starts anew every `horizon` steps, as in robomimic; with `open_loop`, it
    sees the first observation of these only.

    Args:
        observation_space: That of the environment.
        action_space: That of the environment.
        parts: The inputs of the policy in an observation.
        network: The network.
        algo: Settings of the algorithm.
        scales: Shift and scale of the inputs, and of the actions.
    """

    input_shift: th.Tensor
    input_scale: th.Tensor
    action_shift: th.Tensor
    action_scale: th.Tensor

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: spaces.Box,
        parts: list[Part],
        network: _Network,
        algo: _Algorithm,
        scales: dict[str, th.Tensor],
    ) -> None:
        super().__init__(observation_space, action_space)
        self.parts, self.network, self.algo = parts, network, algo
        for name, value in scales.items():
            self.register_buffer(name, value)

    def initial_state(self, n_envs: int) -> State:
        """Returns an empty memory; see `StatefulPolicy`."""
        memory, device = self.network.memory, self.device
        if memory is None:
            return (th.zeros(n_envs, dtype=th.long, device=device),)
        zeros = th.zeros(n_envs, memory.num_layers, memory.hidden_size, device=device)
        first = th.zeros(n_envs, memory.input_size, device=device)
        count = 2 if isinstance(memory, nn.LSTM) else 1
        return (th.zeros(n_envs, dtype=th.long, device=device), first, *[zeros] * count)

    def act(
        self, observation: th.Tensor | dict[str, th.Tensor], state: State, deterministic: bool
    ) -> tuple[th.Tensor, State]:
        """Chooses actions for one step; see `StatefulPolicy`."""
        x = th.cat([part.take(observation).flatten(1) for part in self.parts], dim=1)
        x = (x - self.input_shift) / self.input_scale
        step, *kept = state
        memory = self.network.memory
        if memory is not None:
            first, *hidden = kept
            anew = step % self.algo.rnn.horizon == 0
            first = th.where(anew.unsqueeze(-1), x, first)
            hidden = [th.where(anew.reshape(-1, 1, 1), 0.0, tensor) for tensor in hidden]
            given = [tensor.transpose(0, 1).contiguous() for tensor in hidden]
            seen = first if self.algo.rnn.open_loop else x
            out, after = memory(seen.unsqueeze(1), tuple(given) if len(given) > 1 else given[0])
            x = out[:, 0]
            after = after if isinstance(after, tuple) else (after,)
            kept = [first, *(tensor.transpose(0, 1) for tensor in after)]
        actions = self._choose(self.network(x), deterministic)
        actions = actions * self.action_scale + self.action_shift
        shape = self.action_space.shape
        assert shape is not None
        return actions.reshape(-1, *shape), (step + 1, *kept)

    def _choose(self, heads: dict[str, th.Tensor], deterministic: bool) -> th.Tensor:
        """Returns actions, shape (n, action size), in the units of the network."""
        if "action" in heads:
            return heads["action"].tanh()
        if "logits" in heads:
            return self._of_mixture(heads, deterministic)
        own = self.algo.gaussian
        mean = heads["mean"].clamp(-_MEAN_LIMIT, _MEAN_LIMIT).tanh()
        if deterministic or own.low_noise_eval:
            return mean
        scale = th.full_like(mean, own.init_std)
        if not own.fixed_std and own.std_activation == "exp":
            scale = heads["scale"].exp()
        elif not own.fixed_std:
            at_zero = functional.softplus(th.zeros(()))
            scale = functional.softplus(heads["scale"]) * (own.init_std / at_zero)
        drawn: th.Tensor
        drawn = Normal(mean, scale.clamp(own.min_std, _MOST_STD)).sample()  # type: ignore[no-untyped-call]
        return drawn

    def _of_mixture(self, heads: dict[str, th.Tensor], deterministic: bool) -> th.Tensor:
        own, logits = self.algo.gmm, heads["logits"]
        means = heads["mean"].reshape(len(logits), own.num_modes, -1).tanh()
        if deterministic:
            return means[th.arange(len(means), device=means.device), logits.argmax(dim=-1)]
        scales = th.full_like(means, _LOW_NOISE)
        if not own.low_noise_eval:
            scales = heads["scale"].reshape(means.shape)
            scales = (
                functional.softplus(scales) if own.std_activation == "softplus" else scales.exp()
            )
            scales = scales + own.min_std
        mixture = MixtureSameFamily(
            Categorical(logits=logits), Independent(Normal(means, scales), 1)
        )
        drawn: th.Tensor = mixture.sample()  # type: ignore[no-untyped-call]
        return drawn


def load_robomimic_policy(
    path: Path,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    keys: Mapping[str, str],
) -> RobomimicPolicy:
    """Reads a checkpoint of robomimic.

    Args:
        path: A `.pth` file.
        observation_space: That of the environment.
        action_space: That of the environment.
        keys: Where observation keys are; see `observation_parts.find_parts`.

    Returns:
        The policy on the CPU.

    Raises:
        InputError: It is damaged, of another algorithm or with images, or does not fit the
            environment.
    """
    archive = read_torch_archive(path)
    root = archive.mapping(archive.root, "the checkpoint")
    settings = _settings(path, root)
    algo = settings.algo
    shapes, size = _shapes(archive, root, settings)
    if not isinstance(action_space, spaces.Box) or spaces.flatdim(action_space) != size:
        raise InputError(
            f"{path}: returns {size} numbers as an action, but the environment takes "
            f"{one_line(action_space, 80)}; use a policy of this environment"
        )
    features = [Feature(name, shape) for name, shape in shapes.items()]
    parts = find_parts(features, observation_space, keys, str(path))
    scales = _input_scales(archive, root, shapes)
    scales |= _action_scales(archive, root, settings.train, size)
    weights = _weights(archive, root)
    try:
        check_finite(weights)
        with allocations_limited_by(weights):
            network = _Network(algo, len(scales["input_shift"]), size)
        network.load_state_dict(weights)
    except (ValueError, RuntimeError) as error:
        raise InputError(
            f"{path}: does not have the weights that its settings describe ({one_line(error, 200)})"
        ) from error
    return RobomimicPolicy(observation_space, action_space, parts, network, algo, scales)


def _settings(path: Path, root: Mapping[str, Any]) -> _Settings:
    name, text = root.get("algo_name"), root.get("config")
    if not isinstance(name, str) or not isinstance(text, str):
        raise InputError(f"{path}: is not a checkpoint of robomimic: has no algo_name and config")
    if name != "bc":
        raise InputError(
            f"{path}: is of the algorithm {one_line(name, 40)}; robomimic's policies that can be "
            "read: bc (deterministic, gaussian, gmm, rnn)"
        )
    try:
        settings = _Settings.model_validate(json.loads(text))
    except ValidationError as error:
        raise InputError(f"{path}: config: {first_problem(error)}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: config: is not JSON ({one_line(error, 120)})") from error
    algo, modalities = settings.algo, settings.observation.modalities
    other = [kind for kind in ("vae", "transformer") if getattr(algo, kind).enabled]
    images = [key for kind, keys in modalities.obs.items() if kind != "low_dim" for key in keys]
    goals = [key for keys in modalities.goal.values() for key in keys]
    for found, what in (
        (other, "a network of the kind"),
        (images, "images as"),
        (goals, "goals as"),
    ):
        if found:
            raise InputError(
                f"{path}: has {what} {one_line(found[0], 40)}, which cannot be read; readable: bc "
                "(deterministic, gaussian, gmm, rnn) with low-dimensional observations"
            )
    if algo.gaussian.enabled and (algo.rnn.enabled or algo.gmm.enabled):
        raise InputError(f"{path}: config: algo.gaussian does not work with algo.rnn or algo.gmm")
    if not algo.actor_layer_dims and not algo.rnn.enabled:
        raise InputError(f"{path}: config: algo.actor_layer_dims: is empty")
    return settings


def _shapes(
    archive: TorchArchive, root: Mapping[str, Any], settings: _Settings
) -> tuple[dict[str, tuple[int, ...]], int]:
    """Returns the shapes of the inputs in the order of the network, and the size of actions."""
    stated = archive.mapping(root.get("shape_metadata"), "shape_metadata")
    size = stated.get("ac_dim")
    shapes: dict[str, tuple[int, ...]] = {}
    chosen = settings.observation.modalities.obs.get("low_dim", [])
    for name, shape in archive.mapping(stated.get("all_shapes"), "all_shapes").items():
        if name in chosen:
            plain = isinstance(shape, list | tuple) and 0 < len(shape) <= 3
            if not plain or not all(type(n) is int and 0 < n <= 2**16 for n in shape):
                raise InputError(f"{archive.path}: all_shapes: {one_line(name, 40)}: is no shape")
            shapes[name] = tuple(shape)
    missing = [name for name in chosen if name not in shapes]
    if missing or not shapes:
        raise InputError(
            f"{archive.path}: all_shapes: lacks {one_line(', '.join(missing) or 'any', 80)}"
        )
    if type(size) is not int or not 0 < size <= 2**16:
        raise InputError(f"{archive.path}: shape_metadata: ac_dim: is no number of actions")
    return shapes, size


def _input_scales(
    archive: TorchArchive, root: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, th.Tensor]:
    stored = root.get("obs_normalization_stats")
    shifts, scales = [], []
    stats = {} if stored is None else archive.mapping(stored, "obs_normalization_stats")
    for name, shape in shapes.items():
        count = th.Size(shape).numel()
        if stored is None:
            shifts.append(th.zeros(count))
            scales.append(th.ones(count))
        else:
            shift, scale = _shift_and_scale(archive, stats, name, count)
            shifts.append(shift)
            scales.append(scale)
    return {"input_shift": th.cat(shifts), "input_scale": th.cat(scales)}


def _action_scales(
    archive: TorchArchive, root: Mapping[str, Any], train: _Train, size: int
) -> dict[str, th.Tensor]:
    stored = root.get("action_normalization_stats")
    if stored is None:
        return {"action_shift": th.zeros(size), "action_scale": th.ones(size)}
    stats = archive.mapping(stored, "action_normalization_stats")
    for name, own in train.action_config.items():
        if own.get("format") is not None:
            raise InputError(
                f"{archive.path}: config: actions of {one_line(name, 40)} have the format "
                f"{one_line(own['format'], 40)}, which cannot be read"
            )
    pairs = [_shift_and_scale(archive, stats, name, None) for name in train.action_keys]
    shift, scale = (th.cat(parts) for parts in zip(*pairs, strict=True))
    if len(shift) != size:
        raise InputError(f"{archive.path}: action_normalization_stats: are not of {size} numbers")
    return {"action_shift": shift, "action_scale": scale}


def _shift_and_scale(
    archive: TorchArchive, stats: Mapping[str, Any], name: str, count: int | None
) -> tuple[th.Tensor, th.Tensor]:
    """Returns mean and standard deviation, or offset and scale in later versions."""
    if name not in stats:
        raise InputError(
            f"{archive.path}: its normalization is missing: there are no statistics of "
            f"{one_line(name, 40)}"
        )
    own = archive.mapping(stats[name], name)
    pair = ("offset", "scale") if "offset" in own else ("mean", "std")
    found = []
    for part in pair:
        try:
            value = th.tensor(own.get(part), dtype=th.float32).flatten()
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise InputError(
                f"{archive.path}: normalization of {one_line(name, 40)}: {part}: is no list of "
                "numbers"
            ) from error
        if (count is not None and len(value) != count) or not bool(th.isfinite(value).all()):
            raise InputError(
                f"{archive.path}: normalization of {one_line(name, 40)}: {part}: is not of "
                f"{count} finite numbers"
            )
        found.append(value)
    return found[0], found[1]


def _weights(archive: TorchArchive, root: Mapping[str, Any]) -> dict[str, th.Tensor]:
    """Returns the weights of the policy by name, each once."""
    stored = archive.mapping(root.get("model"), "model")
    if "nets" in stored:  # later versions have the optimizers beside them
        stored = archive.mapping(stored["nets"], "nets")
    weights = {}
    for name, value in stored.items():
        own = name.removeprefix("policy.")
        # A recurrent network lists its layers and heads a second time.
        if own != name and not own.startswith("nets.rnn.per_step_net."):
            weights[own] = archive.tensor(value, name).float()
    return weights
