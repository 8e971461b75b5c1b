"""The networks of LeRobot's diffusion policy, with the same names of weights (Chi et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch as th
from torch import nn

from imitbench.policies.lerobot_images import KeypointEncoder, group_norm
from imitbench.policies.lerobot_settings import LAST_GROUPS, DiffusionSettings
from imitbench.policies.observation_parts import Feature


def noise_levels(settings: DiffusionSettings) -> th.Tensor:
    """Returns the share of the signal that is left at each step, shape (steps,).

    This is the product of 1 - beta up to the step (Ho et al. 2020, Section 2). The squared cosine
    is that of Nichol and Dhariwal (2021), Equation 17.
    """
    steps, first, last = settings.num_train_timesteps, settings.beta_start, settings.beta_end
    if settings.beta_schedule == "linear":
        betas = th.linspace(first, last, steps)
    elif settings.beta_schedule == "scaled_linear":
        betas = th.linspace(first**0.5, last**0.5, steps) ** 2
    else:

        def left(time: float) -> float:
            return math.cos((time + 0.008) / 1.008 * math.pi / 2) ** 2

        betas = th.tensor(
            [min(1 - left((i + 1) / steps) / left(i / steps), 0.999) for i in range(steps)]
        )
    return (1 - betas).cumprod(dim=0)


class _StepEmbedding(nn.Module):
    """Sines and cosines of the number of a diffusion step."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.waves = size // 2

    def forward(self, steps: th.Tensor) -> th.Tensor:
        index = th.arange(self.waves, device=steps.device)
        angle = steps.unsqueeze(-1) * th.exp(index * (-math.log(10_000) / (self.waves - 1)))
        return th.cat([angle.sin(), angle.cos()], dim=-1)


class _Convolution(nn.Module):
    """Convolution over time, group normalization and Mish."""

    def __init__(self, inputs: int, outputs: int, kernel: int, groups: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv1d(inputs, outputs, kernel, padding=kernel // 2),
            nn.GroupNorm(groups, outputs),
            nn.Mish(),
        )

    def forward(self, x: th.Tensor) -> th.Tensor:
        result: th.Tensor = self.block(x)
        return result


class _ResidualBlock(nn.Module):
    """Two convolutions; the condition shifts, and may scale, what is between them (FiLM)."""

    def __init__(
        self, inputs: int, outputs: int, condition: int, settings: DiffusionSettings
    ) -> None:
        super().__init__()
        self.scaled = settings.use_film_scale_modulation
        kernel, groups = settings.kernel_size, settings.n_groups
        self.conv1 = _Convolution(inputs, outputs, kernel, groups)
        self.cond_encoder = nn.Sequential(
            nn.Mish(), nn.Linear(condition, outputs * (2 if self.scaled else 1))
        )
        self.conv2 = _Convolution(outputs, outputs, kernel, groups)
        self.residual_conv = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: th.Tensor, condition: th.Tensor) -> th.Tensor:
        out = self.conv1(x)
        shift = self.cond_encoder(condition).unsqueeze(-1)
        if self.scaled:
            scale, shift = shift.chunk(2, dim=1)
            out = scale * out
        result: th.Tensor = self.conv2(out + shift) + self.residual_conv(x)
        return result


class _UNet(nn.Module):
    """Predicts the noise, or the actions, of a noisy plan."""

    def __init__(self, settings: DiffusionSettings, action_size: int, condition: int) -> None:
        super().__init__()
        size = settings.diffusion_step_embed_dim
        self.diffusion_step_encoder = nn.Sequential(
            _StepEmbedding(size), nn.Linear(size, 4 * size), nn.Mish(), nn.Linear(4 * size, size)
        )
        widths = settings.down_dims
        both = condition + size

        def blocks(inputs: int, outputs: int, last: nn.Module) -> nn.ModuleList:
            return nn.ModuleList(
                [
                    _ResidualBlock(inputs, outputs, both, settings),
                    _ResidualBlock(outputs, outputs, both, settings),
                    last,
                ]
            )

        pairs = list(zip([action_size, *widths[:-1]], widths, strict=True))
        self.down_modules = nn.ModuleList(
            blocks(a, b, nn.Conv1d(b, b, 3, 2, 1) if index < len(pairs) - 1 else nn.Identity())
            for index, (a, b) in enumerate(pairs)
        )
        self.mid_modules = nn.ModuleList(
            _ResidualBlock(widths[-1], widths[-1], both, settings) for _ in range(2)
        )
        # As many as it was halved.
        self.up_modules = nn.ModuleList(
            blocks(2 * b, a, nn.ConvTranspose1d(a, a, 4, 2, 1)) for a, b in reversed(pairs[1:])
        )
        self.final_conv = nn.Sequential(
            _Convolution(widths[0], widths[0], settings.kernel_size, LAST_GROUPS),
            nn.Conv1d(widths[0], action_size, 1),
        )

    def forward(self, plan: th.Tensor, steps: th.Tensor, condition: th.Tensor) -> th.Tensor:
        """Maps a noisy plan, shape (n, horizon, action size), to a prediction of the same shape.

        Args:
            plan: The noisy plan.
            steps: Number of the diffusion step, shape (n,).
            condition: What is known of the observations, shape (n, size).
        """
        x = plan.transpose(1, 2)
        known = th.cat([self.diffusion_step_encoder(steps), condition], dim=-1)
        skipped = []
        for block in self.down_modules:
            assert isinstance(block, nn.ModuleList)
            first, second, smaller = block
            x = second(first(x, known), known)
            skipped.append(x)
            x = smaller(x)
        for middle in self.mid_modules:
            x = middle(x, known)
        for block in self.up_modules:
            assert isinstance(block, nn.ModuleList)
            first, second, larger = block
            x = th.cat([x, skipped.pop()], dim=1)
            x = larger(second(first(x, known), known))
        result: th.Tensor = self.final_conv(x).transpose(1, 2)
        return result


class DiffusionNetwork(nn.Module):
    """Maps a history of observations to a plan, by removing noise step by step.

    Args:
        settings: Sizes of the networks, and how noise is removed.
        state: `observation.state`.
        environment: `observation.environment_state`, if the policy takes it.
        images: Its images, all of one shape.
        action_size: Numbers of an action.
    """

    def __init__(
        self,
        settings: DiffusionSettings,
        state: Feature,
        environment: Feature | None,
        images: Sequence[Feature],
        action_size: int,
    ) -> None:
        super().__init__()
        self.settings, self.action_size = settings, action_size
        self.state, self.environment, self.images = state, environment, list(images)
        size = state.shape[0] + (environment.shape[0] if environment is not None else 0)
        if self.images:
            count = len(self.images) if settings.use_separate_rgb_encoder_per_camera else 1
            encoders = [self._image_encoder() for _ in range(count)]
            size += encoders[0].feature_dim * len(self.images)
            separate = settings.use_separate_rgb_encoder_per_camera
            self.rgb_encoder = nn.ModuleList(encoders) if separate else encoders[0]
        self.unet = _UNet(settings, action_size, size * settings.n_obs_steps)
        self.register_buffer("levels", noise_levels(settings), persistent=False)

    def _image_encoder(self) -> KeypointEncoder:
        settings = self.settings
        return KeypointEncoder(
            settings.vision_backbone,
            (self.images[0].shape[1], self.images[0].shape[2]),
            settings.resize_shape,
            settings.crop_shape,
            settings.spatial_softmax_num_keypoints,
            group_norm if settings.use_group_norm else nn.BatchNorm2d,
        )

    def forward(self, inputs: dict[str, th.Tensor], deterministic: bool) -> th.Tensor:
        """Plans actions.

        Args:
            inputs: Scaled features by name, shape (n, history, …).
            deterministic: Whether to replace all noise by its mean 0, as LeRobot never does.

        Returns:
            The plan from now on, shape (n, horizon - history + 1, action size).
        """
        features = [inputs[self.state.name]]
        features += [self._encoded(index, inputs) for index in range(len(self.images))]
        if self.environment is not None:
            features.append(inputs[self.environment.name])
        condition = th.cat(features, dim=-1).flatten(1)
        shape = (len(condition), self.settings.horizon, self.action_size)
        plan = condition.new_zeros(shape) if deterministic else th.randn(shape).to(condition)
        # Evenly spaced, ending at 0, as the schedulers of LeRobot's default settings do.
        trained = self.settings.num_train_timesteps
        count = self.settings.num_inference_steps or trained
        ratio = trained // count
        for step in range((count - 1) * ratio, -1, -ratio):
            steps = th.full((len(plan),), step, device=plan.device)
            plan = self._less_noisy(
                plan, self.unet(plan, steps, condition), step, ratio, deterministic
            )
        return plan[:, self.settings.n_obs_steps - 1 :]

    def _encoded(self, index: int, inputs: dict[str, th.Tensor]) -> th.Tensor:
        """Encodes one camera's images, shape (n, history, size)."""
        encoder: nn.Module = self.rgb_encoder
        if isinstance(encoder, nn.ModuleList):
            encoder = encoder[index]
        images = inputs[self.images[index].name]
        result: th.Tensor = encoder(images.flatten(0, 1)).unflatten(0, images.shape[:2])
        return result

    def _less_noisy(
        self, plan: th.Tensor, predicted: th.Tensor, step: int, ratio: int, deterministic: bool
    ) -> th.Tensor:
        """Returns the plan at the previous step.

        DDPM: Ho et al. (2020), Equations 6 and 7. DDIM: Song et al. (2021), Equation 12 with
        sigma = 0.
        """
        settings, levels = self.settings, self.levels
        assert isinstance(levels, th.Tensor)
        now = levels[step]
        before = levels[step - ratio] if step >= ratio else th.ones_like(now)
        if settings.prediction_type == "epsilon":
            noise, clean = predicted, (plan - (1 - now).sqrt() * predicted) / now.sqrt()
        else:
            noise, clean = (plan - now.sqrt() * predicted) / (1 - now).sqrt(), predicted
        if settings.clip_sample:
            clean = clean.clamp(-settings.clip_sample_range, settings.clip_sample_range)
        if settings.noise_scheduler_type == "DDIM":
            return before.sqrt() * clean + (1 - before).sqrt() * noise
        alpha = now / before
        mean = (
            before.sqrt() * (1 - alpha) / (1 - now) * clean
            + alpha.sqrt() * (1 - before) / (1 - now) * plan
        )
        if step == 0 or deterministic:
            return mean
        variance = ((1 - before) / (1 - now) * (1 - alpha)).clamp(min=1e-20)
        return mean + variance.sqrt() * th.randn(mean.shape).to(mean)
