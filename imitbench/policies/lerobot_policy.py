"""Reads policies of LeRobot as data: ACT and diffusion policies, with their normalization.

Such a policy is a folder with `config.json` and `model.safetensors`. Versions from 0.4 on keep the
normalization in `policy_preprocessor.json` and `policy_postprocessor.json` with a safetensors file
for each; earlier ones keep it among the weights. The networks are this package's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch as th
from gymnasium import spaces
from torch import nn

from imitbench.errors import InputError
from imitbench.policies.action_chunks import PartsChunkPolicy
from imitbench.policies.bounded_construction import allocations_limited_by, check_finite
from imitbench.policies.lerobot_act import ActNetwork
from imitbench.policies.lerobot_diffusion import DiffusionNetwork
from imitbench.policies.lerobot_settings import (
    ACTION,
    CONFIG_FILE,
    ENVIRONMENT,
    STATE,
    ActSettings,
    DiffusionSettings,
    read_json,
    read_settings,
)
from imitbench.policies.observation_parts import Feature, Part, find_parts
from imitbench.untrusted.files import read_content
from imitbench.util.tensor_storage import parse_weights
from imitbench.util.text_line import one_line

WEIGHTS_FILE = "model.safetensors"
_PROCESSORS = {
    "policy_preprocessor.json": "normalizer_processor",
    "policy_postprocessor.json": "unnormalizer_processor",
}
_RENAMING = "rename_observations_processor"
_WITHOUT_EFFECT = {"to_batch_processor", "device_processor"}
# Statistics that a mode needs: those at -1 and 1, or those at 0 and 1.
_NEEDED = {
    "MEAN_STD": ("mean", "std"),
    "MIN_MAX": ("min", "max"),
    "QUANTILES": ("q01", "q99"),
    "QUANTILE10": ("q10", "q90"),
}
_OLD_INPUTS, _OLD_OUTPUTS = "normalize_inputs.", "unnormalize_outputs."
_OLD = (_OLD_INPUTS, _OLD_OUTPUTS, "normalize_targets.")
# Names by which environments have LeRobot's features; those of its own environments first.
_ALIASES = {
    STATE: ("agent_pos", "state"),
    ENVIRONMENT: ("environment_state",),
    "observation.image": ("pixels", "image"),
}
_EPSILON = 1e-8

Statistics = dict[str, dict[str, th.Tensor]]


class Scaling(nn.Module):
    """Scales numbers by what was measured in the data.

    Args:
        shift: What becomes 0.
        scale: What becomes a difference of 1.
    """

    shift: th.Tensor
    scale: th.Tensor

    def __init__(self, shift: th.Tensor, scale: th.Tensor) -> None:
        super().__init__()
        self.register_buffer("shift", shift)
        self.register_buffer("scale", scale)

    def forward(self, x: th.Tensor) -> th.Tensor:
        """Returns scaled numbers, shape (…, *shape of the feature)."""
        return (x - self.shift) / self.scale

    def undo(self, x: th.Tensor) -> th.Tensor:
        """Inverts `forward`."""
        return x * self.scale + self.shift


class LeRobotPolicy(PartsChunkPolicy):
    """A policy of LeRobot.

    Args:
        observation_space: That of the environment.
        action_space: That of the environment.
        parts: The inputs of the policy in an observation.
        scalings: Scaling of each part, and of actions last.
        network: Maps scaled inputs to a plan.
        settings: Settings of the policy.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: spaces.Box,
        parts: list[Part],
        scalings: list[Scaling],
        network: ActNetwork | DiffusionNetwork,
        settings: ActSettings | DiffusionSettings,
    ) -> None:
        planned, ensembling = settings.n_action_steps, None
        if isinstance(settings, ActSettings):
            planned, ensembling = settings.chunk_size, settings.temporal_ensemble_coeff
        super().__init__(
            observation_space,
            action_space,
            parts,
            history=settings.n_obs_steps,
            planned=planned,
            executed=settings.n_action_steps,
            ensembling=ensembling,
        )
        self.scalings = nn.ModuleList(scalings)
        self.network = network

    def plan(self, inputs: dict[str, th.Tensor], deterministic: bool) -> th.Tensor:
        """Plans actions; see `PartsChunkPolicy`."""
        scaled = {
            name: scaling(feature)
            for (name, feature), scaling in zip(inputs.items(), self.scalings, strict=False)
        }
        result: th.Tensor = self.network(scaled, deterministic)
        return result

    def in_units_of_environment(self, actions: th.Tensor) -> th.Tensor:
        """Converts actions; see `PartsChunkPolicy`."""
        scaling = self.scalings[-1]
        assert isinstance(scaling, Scaling)
        return scaling.undo(actions)


def is_lerobot(folder: Path) -> bool:
    """Whether a folder has a policy of LeRobot."""
    return (folder / CONFIG_FILE).is_file() and not (folder / "policy.json").is_file()


def load_lerobot_policy(
    folder: Path,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    keys: Mapping[str, str],
) -> LeRobotPolicy:
    """Reads a policy of LeRobot.

    Args:
        folder: Folder with `config.json` and `model.safetensors`.
        observation_space: That of the environment.
        action_space: That of the environment.
        keys: Where features are in observations; see `observation_parts.find_parts`.

    Returns:
        The policy on the CPU.

    Raises:
        InputError: A file is missing or damaged, the policy is of another type, its normalization
            is missing, or it does not fit the environment.
    """
    settings = read_settings(folder)
    weights = _read_weights(folder / WEIGHTS_FILE, folder)
    before, after, names = _normalization(folder, weights, settings.normalization_mapping)
    features = _features(settings, names)
    size = _check_action(folder, settings, action_space)
    parts = find_parts(features, observation_space, keys, str(folder))
    modes = settings.normalization_mapping
    scalings = []
    for feature in features:
        mode = modes.get(settings.input_features[feature.name].type, "IDENTITY")
        scalings.append(_scaling(folder, feature.name, feature.shape, mode, before))
    scalings.append(_scaling(folder, ACTION, (size,), modes.get("ACTION", "IDENTITY"), after))
    network = _network(folder, settings, features, size, weights)
    assert isinstance(action_space, spaces.Box)
    return LeRobotPolicy(observation_space, action_space, parts, scalings, network, settings)


def _features(settings: ActSettings | DiffusionSettings, names: Mapping[str, str]) -> list[Feature]:
    """Returns the inputs that the networks take: state, environment state, images."""
    chosen = [name for name in (STATE, ENVIRONMENT) if name in settings.input_features]
    found = []
    for name in [*chosen, *settings.images]:
        renamed = [own for own, new in names.items() if new == name]
        short = name.removeprefix("observation.").removeprefix("images.")
        aliases = (*renamed, *_ALIASES.get(name, ()), short)
        shape = tuple(settings.input_features[name].shape)
        found.append(Feature(name, shape, name in settings.images, aliases))
    return found


def _check_action(
    folder: Path, settings: ActSettings | DiffusionSettings, space: gym.Space[Any]
) -> int:
    """Returns the size of an action, after checking it against the environment."""
    shape = settings.output_features[ACTION].shape
    if not isinstance(space, spaces.Box) or len(shape) != 1 or spaces.flatdim(space) != shape[0]:
        raise InputError(
            f"{folder}: returns actions of shape {shape}, but the environment takes "
            f"{one_line(space, 80)}; use a policy of this environment"
        )
    return shape[0]


def _read_weights(path: Path, folder: Path) -> dict[str, th.Tensor]:
    try:
        return parse_weights(read_content(path))
    except FileNotFoundError:
        pickled = [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")]
        hint = (
            f"; {sorted(pickled)[0].name} is a pickle, which is not read: save the policy with a "
            "version of LeRobot that writes safetensors"
            if pickled
            else "; is this the folder `pretrained_model` of a LeRobot checkpoint?"
        )
        raise InputError(f"{path}: no such file{hint}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise InputError(f"{path}: not a safetensors file ({one_line(error)})") from error


def _normalization(
    folder: Path, weights: dict[str, th.Tensor], modes: Mapping[str, str]
) -> tuple[Statistics, Statistics, dict[str, str]]:
    """Returns statistics of inputs and of outputs, and new names of inputs by old.

    Statistics of earlier versions are removed from the weights.
    """
    old: dict[str, th.Tensor] = {}
    for name in list(weights):
        if name.startswith(_OLD):
            old[name] = weights.pop(name)
    files = [folder / name for name in _PROCESSORS]
    if not any(path.is_file() for path in files):
        return _of_buffers(old, _OLD_INPUTS), _of_buffers(old, _OLD_OUTPUTS), {}
    found = [
        _read_processor(path, step, modes)
        for path, step in zip(files, _PROCESSORS.values(), strict=True)
    ]
    return found[0][0], found[1][0], found[0][1]


def _of_buffers(old: Mapping[str, th.Tensor], prefix: str) -> Statistics:
    """Returns statistics of `normalize_inputs.buffer_observation_state.mean`, …, by buffer."""
    found: Statistics = {}
    for name, value in old.items():
        buffer, _, statistic = name.removeprefix(prefix).partition(".")
        if name.startswith(prefix):
            found.setdefault(buffer.removeprefix("buffer_"), {})[statistic] = value
    return found


def _check_modes(path: Path, config: Any, modes: Mapping[str, str]) -> None:
    """Checks that a pipeline normalizes as `config.json` says: both are stored."""
    stated = config.get("norm_map") if isinstance(config, dict) else None
    if stated != modes:
        raise InputError(
            f"{path}: norm_map: differs from normalization_mapping in {CONFIG_FILE}; save the "
            "policy with the normalization that it was trained with"
        )


def _read_processor(
    path: Path, wanted: str, modes: Mapping[str, str]
) -> tuple[Statistics, dict[str, str]]:
    """Returns the statistics of a pipeline, and its new names by old."""
    steps = read_json(path).get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise InputError(f"{path}: steps: must be a list of objects")
    statistics: Statistics = {}
    names: dict[str, str] = {}
    for step in steps:
        name, config = step.get("registry_name"), step.get("config")
        if name == wanted:
            _check_modes(path, config, modes)
            statistics = _read_statistics(path, step.get("state_file"))
        elif name == _RENAMING and isinstance(config, dict):
            renamed = config.get("rename_map", {})
            if isinstance(renamed, dict):
                names = {str(own): str(new) for own, new in renamed.items()}
        elif not isinstance(name, str) or name not in _WITHOUT_EFFECT:
            known = ", ".join([_RENAMING, *sorted(_WITHOUT_EFFECT), wanted])
            raise InputError(
                f"{path}: has the step {one_line(name or step.get('class'), 60)}, which cannot be "
                f"carried out; known: {known}"
            )
    return statistics, names


def _read_statistics(path: Path, name: Any) -> Statistics:
    if not isinstance(name, str) or Path(name).name != name:
        raise InputError(f"{path}: state_file: must name a file in the same folder")
    file = path.parent / name
    try:
        tensors = parse_weights(read_content(file))
    except OSError as error:
        raise InputError(
            f"{file}: cannot be read ({error.strerror}); it has the normalization of the policy"
        ) from error
    except ValueError as error:
        raise InputError(f"{file}: not a safetensors file ({one_line(error)})") from error
    found: Statistics = {}
    for key, value in tensors.items():
        feature, _, statistic = key.rpartition(".")
        found.setdefault(feature, {})[statistic] = value
    return found


def _scaling(
    folder: Path, name: str, shape: tuple[int, ...], mode: str, statistics: Statistics
) -> Scaling:
    """Returns the scaling of a feature.

    Raises:
        InputError: Its statistics are missing, not finite, or of another shape.
    """
    if mode == "IDENTITY":
        return Scaling(th.zeros(()), th.ones(()))
    known = statistics.get(name, statistics.get(name.replace(".", "_"), {}))
    found = []
    for statistic in _NEEDED[mode]:
        value = known.get(statistic)
        if value is None or not bool(th.isfinite(value).all()):
            raise InputError(
                f"{folder}: its normalization is missing: {name} needs {statistic} ({mode}); save "
                "the policy with its statistics, as LeRobot's training does"
            )
        of_channels = (shape[0], 1, 1) if len(shape) == 3 else shape
        if value.numel() not in (1, of_channels[0]):
            raise InputError(
                f"{folder}: normalization of {name}: {statistic} has the shape "
                f"{list(value.shape)}, not {list(of_channels)}"
            )
        value = value.float()
        found.append(value.reshape(of_channels) if value.numel() > 1 else value.reshape(()))
    low, high = found
    if mode == "MEAN_STD":
        return Scaling(low, high + _EPSILON if name != ACTION else high)
    width = high - low
    width = th.where(width == 0, _EPSILON, width)
    return Scaling(low + width / 2, width / 2)


def _network(
    folder: Path,
    settings: ActSettings | DiffusionSettings,
    features: list[Feature],
    size: int,
    weights: dict[str, th.Tensor],
) -> ActNetwork | DiffusionNetwork:
    """Builds the network and gives it its weights."""
    prefix = "model." if isinstance(settings, ActSettings) else "diffusion."
    own = {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if not name.startswith("model.vae_encoder")
    }
    by_name = {feature.name: feature for feature in features}
    state, environment = by_name.get(STATE), by_name.get(ENVIRONMENT)
    images = [feature for feature in features if feature.is_image]
    network: ActNetwork | DiffusionNetwork
    try:
        check_finite(own)
        with allocations_limited_by(own):
            if isinstance(settings, ActSettings):
                network = ActNetwork(settings, state, environment, images, size)
            else:
                assert state is not None
                network = DiffusionNetwork(settings, state, environment, images, size)
        network.load_state_dict({name: value.float() for name, value in own.items()})
    except (ValueError, RuntimeError) as error:
        raise InputError(
            f"{folder / WEIGHTS_FILE}: does not have the weights that {CONFIG_FILE} describes "
            f"({one_line(error, 200)})"
        ) from error
    return network
