"""`config.json` of LeRobot's policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from imitbench.errors import InputError
from imitbench.policies.lerobot_images import BLOCKS
from imitbench.untrusted.files import read_content
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

CONFIG_FILE = "config.json"
STATE, ENVIRONMENT, ACTION = "observation.state", "observation.environment_state", "action"

LAST_GROUPS = 8
"""Groups of the last normalization of `diffusion`, which no setting changes."""

Mode = Literal["IDENTITY", "MEAN_STD", "MIN_MAX", "QUANTILES", "QUANTILE10"]
Size = Annotated[int, Field(ge=1, le=2**16)]
_Images = tuple[Size, Size]

# Settings of training, and of where a policy is stored; none changes how it acts.
_WITHOUT_EFFECT = frozenset(
    {
        "device", "use_amp", "push_to_hub", "repo_id", "private", "tags", "license",
        "pretrained_path", "pretrained_revision", "pretrained_backbone_weights",
        "dropout", "kl_weight", "use_vae", "n_vae_encoder_layers", "drop_n_last_frames",
        "crop_is_random", "crop_ratio", "do_mask_loss_for_padding", "compile_model",
        "compile_mode", "gradient_checkpointing",
    }
)  # fmt: skip
_PREFIXES_WITHOUT_EFFECT = ("optimizer_", "scheduler_")


class FeatureSettings(BaseModel, extra="forbid", strict=True, frozen=True):
    """An input or output of a policy."""

    type: Literal["STATE", "ENV", "VISUAL", "ACTION", "REWARD", "LANGUAGE"]
    shape: list[Size] = Field(min_length=1, max_length=3)


class _Settings(BaseModel, extra="forbid", strict=True, frozen=True):
    """What all policies have. Defaults differ between versions of LeRobot, so nothing has one."""

    n_obs_steps: Annotated[int, Field(ge=1, le=1000)]
    input_features: dict[str, FeatureSettings]
    output_features: dict[str, FeatureSettings]
    normalization_mapping: dict[str, Mode]
    n_action_steps: Size
    vision_backbone: str
    use_peft: Literal[False] = False

    @model_validator(mode="after")
    def _check_images(self) -> _Settings:
        if self.images and self.vision_backbone not in BLOCKS:
            raise ValueError(
                f"vision_backbone: {one_line(self.vision_backbone, 40)} cannot be read; readable: "
                f"{', '.join(BLOCKS)}"
            )
        if any(len(image.shape) != 3 or image.shape[0] != 3 for image in self.images.values()):
            raise ValueError("input_features: images must have the shape 3, rows, columns")
        flat = [self.input_features.get(name) for name in (STATE, ENVIRONMENT)]
        if any(feature is not None and len(feature.shape) != 1 for feature in flat):
            raise ValueError(f"input_features: {STATE} and {ENVIRONMENT} must have one axis")
        if ACTION not in self.output_features:
            raise ValueError(f"output_features: has no {ACTION}")
        return self

    @property
    def images(self) -> dict[str, FeatureSettings]:
        """Images among the inputs, in order."""
        return {
            name: feature
            for name, feature in self.input_features.items()
            if feature.type == "VISUAL"
        }


class ActSettings(_Settings):
    """Settings of `act` that change how it acts."""

    type: Literal["act"]
    n_obs_steps: Literal[1]
    chunk_size: Size
    replace_final_stride_with_dilation: Literal[False, 0]
    pre_norm: bool
    dim_model: Annotated[int, Field(ge=4, le=2**14, multiple_of=4)]
    n_heads: Size
    dim_feedforward: Size
    feedforward_activation: Literal["relu", "gelu"]
    n_encoder_layers: Annotated[int, Field(ge=0, le=100)]
    n_decoder_layers: Annotated[int, Field(ge=1, le=100)]
    latent_dim: Size
    temporal_ensemble_coeff: float | None

    @model_validator(mode="after")
    def _check(self) -> ActSettings:
        if self.n_action_steps > self.chunk_size:
            raise ValueError(
                f"n_action_steps: {self.n_action_steps} actions are longer than chunk_size, "
                f"{self.chunk_size}"
            )
        if self.temporal_ensemble_coeff is not None and self.n_action_steps != 1:
            raise ValueError("n_action_steps: must be 1 with temporal_ensemble_coeff")
        if self.dim_model % self.n_heads:
            raise ValueError("dim_model: must be a multiple of n_heads")
        if not self.images and ENVIRONMENT not in self.input_features:
            raise ValueError(f"input_features: needs an image or {ENVIRONMENT}")
        return self


class DiffusionSettings(_Settings):
    """Settings of `diffusion` that change how it acts."""

    type: Literal["diffusion"]
    horizon: Size
    resize_shape: _Images | None = None
    crop_shape: _Images | None
    use_group_norm: bool
    spatial_softmax_num_keypoints: Size
    use_separate_rgb_encoder_per_camera: bool
    down_dims: Annotated[tuple[Size, ...], Field(min_length=1, max_length=12)]
    kernel_size: Annotated[int, Field(ge=1, le=99)]
    n_groups: Size
    diffusion_step_embed_dim: Annotated[int, Field(ge=4, le=2**14, multiple_of=2)]
    use_film_scale_modulation: bool
    noise_scheduler_type: Literal["DDPM", "DDIM"]
    num_train_timesteps: Annotated[int, Field(ge=1, le=100_000)]
    beta_schedule: Literal["linear", "scaled_linear", "squaredcos_cap_v2"]
    beta_start: Annotated[float, Field(ge=0, le=1)]
    beta_end: Annotated[float, Field(ge=0, le=1)]
    prediction_type: Literal["epsilon", "sample"]
    clip_sample: bool
    clip_sample_range: Annotated[float, Field(gt=0)]
    num_inference_steps: Annotated[int, Field(ge=1)] | None

    @model_validator(mode="after")
    def _check(self) -> DiffusionSettings:
        longest = self.horizon - self.n_obs_steps + 1
        if self.n_action_steps > longest:
            raise ValueError(
                f"n_action_steps: {self.n_action_steps} actions are longer than what horizon "
                f"{self.horizon} leaves after {self.n_obs_steps} observations, {longest}"
            )
        if self.horizon % 2 ** (len(self.down_dims) - 1):
            raise ValueError(
                f"horizon: must be a multiple of {2 ** (len(self.down_dims) - 1)} with "
                f"{len(self.down_dims)} down_dims"
            )
        if any(width % self.n_groups for width in self.down_dims):
            raise ValueError("down_dims: must be multiples of n_groups")
        if self.down_dims[0] % LAST_GROUPS:
            raise ValueError(f"down_dims: the first must be a multiple of {LAST_GROUPS}")
        if (self.num_inference_steps or 1) > self.num_train_timesteps:
            raise ValueError("num_inference_steps: is larger than num_train_timesteps")
        if self.kernel_size % 2 == 0:
            raise ValueError("kernel_size: must be odd")
        if STATE not in self.input_features:
            raise ValueError(f"input_features: needs {STATE}")
        if len({tuple(image.shape) for image in self.images.values()}) > 1:
            raise ValueError("input_features: all images must have one shape")
        self._check_crop()
        return self

    def _check_crop(self) -> None:
        """Checks that what is cropped is inside the image."""
        for image in self.images.values():
            size = list(self.resize_shape or image.shape[1:])
            kept = list(self.crop_shape or size)
            if any(cropped > whole for cropped, whole in zip(kept, size, strict=True)):
                raise ValueError(f"crop_shape: {kept} is larger than the image, {size}")


SETTINGS: dict[str, type[ActSettings] | type[DiffusionSettings]] = {
    "act": ActSettings,
    "diffusion": DiffusionSettings,
}
"""Policies that can be read, by the `type` in their `config.json`."""


def read_settings(folder: Path) -> ActSettings | DiffusionSettings:
    """Reads `config.json`.

    Args:
        folder: Folder of the policy.

    Raises:
        InputError: It cannot be read, is of another policy, or has a setting that is unknown or
            cannot be carried out.
    """
    path = folder / CONFIG_FILE
    document = read_json(path)
    kind = document.get("type")
    if not isinstance(kind, str) or kind not in SETTINGS:
        shown = "has no type" if kind is None else f"is of the type {one_line(kind, 40)}"
        raise InputError(
            f"{path}: {shown}; LeRobot's policies that can be read: {', '.join(SETTINGS)}"
        )
    document = {
        name: value
        for name, value in document.items()
        if name not in _WITHOUT_EFFECT and not name.startswith(_PREFIXES_WITHOUT_EFFECT)
    }
    try:
        # As JSON, in which lists stand for tuples.
        return SETTINGS[kind].model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}") from error


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        InputError: It cannot be read, or is something else.
    """
    try:
        document = json.loads(read_content(path, "text_bytes"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON ({one_line(error, 120)})") from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: must be a JSON object")
    return document
