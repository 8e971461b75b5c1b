"""The transformer of LeRobot's ACT policy, with the same names of weights (Zhao et al. 2023).

Only what acting needs: the encoder of actions serves training, and its latent is 0 afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch as th
from torch import nn
from torch.nn import functional

from imitbench.policies.lerobot_images import (
    IMAGE_FEATURES,
    FrozenBatchNorm,
    position_embedding,
    resnet_stages,
)
from imitbench.policies.lerobot_settings import ActSettings
from imitbench.policies.observation_parts import Feature

_ACTIVATIONS: dict[str, Callable[[th.Tensor], th.Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
}


class _Layer(nn.Module):
    """A transformer layer; with `crossed`, it also attends to the encoder's tokens."""

    def __init__(self, settings: ActSettings, *, crossed: bool) -> None:
        super().__init__()
        size, heads = settings.dim_model, settings.n_heads
        self.self_attn = nn.MultiheadAttention(size, heads)
        self.multihead_attn = nn.MultiheadAttention(size, heads) if crossed else None
        self.linear1 = nn.Linear(size, settings.dim_feedforward)
        self.linear2 = nn.Linear(settings.dim_feedforward, size)
        self.norm1 = nn.LayerNorm(size)
        self.norm2 = nn.LayerNorm(size)
        self.norm3 = nn.LayerNorm(size) if crossed else None
        self.first = settings.pre_norm
        self.activation = _ACTIVATIONS[settings.feedforward_activation]

    def forward(
        self,
        x: th.Tensor,
        positions: th.Tensor,
        seen: th.Tensor | None = None,
        seen_positions: th.Tensor | None = None,
    ) -> th.Tensor:
        """Maps tokens to tokens, shape (tokens, n, size).

        Args:
            x: The tokens.
            positions: Their position embeddings.
            seen: Tokens of the encoder.
            seen_positions: Position embeddings of these.
        """

        def attend(x: th.Tensor) -> th.Tensor:
            result: th.Tensor = self.self_attn(x + positions, x + positions, x, need_weights=False)[
                0
            ]
            return result

        def look(x: th.Tensor) -> th.Tensor:
            assert self.multihead_attn is not None
            assert seen is not None
            assert seen_positions is not None
            key = seen + seen_positions
            result: th.Tensor = self.multihead_attn(x + positions, key, seen, need_weights=False)[0]
            return result

        def feed(x: th.Tensor) -> th.Tensor:
            result: th.Tensor = self.linear2(self.activation(self.linear1(x)))
            return result

        norms = [self.norm1, self.norm2, self.norm3]
        steps: list[Callable[[th.Tensor], th.Tensor]]
        steps = [attend, feed] if self.multihead_attn is None else [attend, look, feed]
        for step, norm in zip(steps, norms, strict=False):
            assert norm is not None
            x = x + step(norm(x)) if self.first else norm(x + step(x))
        return x


class _Stack(nn.Module):
    """Layers, and a last normalization."""

    def __init__(self, settings: ActSettings, count: int, *, crossed: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(settings, crossed=crossed) for _ in range(count))
        last = crossed or settings.pre_norm
        self.norm = nn.LayerNorm(settings.dim_model) if last else nn.Identity()

    def forward(self, x: th.Tensor, *others: th.Tensor) -> th.Tensor:
        for layer in self.layers:
            x = layer(x, *others)
        result: th.Tensor = self.norm(x)
        return result


class ActNetwork(nn.Module):
    """Maps an observation to a chunk of actions.

    Args:
        settings: Sizes of the networks.
        state: `observation.state`, if the policy takes it.
        environment: `observation.environment_state`, if it takes it.
        images: Its images.
        action_size: Numbers of an action.
    """

    def __init__(
        self,
        settings: ActSettings,
        state: Feature | None,
        environment: Feature | None,
        images: Sequence[Feature],
        action_size: int,
    ) -> None:
        super().__init__()
        size = settings.dim_model
        self.latent, self.chunk = settings.latent_dim, settings.chunk_size
        self.state, self.environment, self.images = state, environment, list(images)
        if self.images:
            stages = resnet_stages(settings.vision_backbone, FrozenBatchNorm)
            self.backbone = nn.ModuleDict(stages)
            self.encoder_img_feat_input_proj = nn.Conv2d(IMAGE_FEATURES, size, kernel_size=1)
        self.encoder = _Stack(settings, settings.n_encoder_layers, crossed=False)
        self.decoder = _Stack(settings, settings.n_decoder_layers, crossed=True)
        if state is not None:
            self.encoder_robot_state_input_proj = nn.Linear(state.shape[0], size)
        if environment is not None:
            self.encoder_env_state_input_proj = nn.Linear(environment.shape[0], size)
        self.encoder_latent_input_proj = nn.Linear(settings.latent_dim, size)
        tokens = 1 + (state is not None) + (environment is not None)
        self.encoder_1d_feature_pos_embed = nn.Embedding(tokens, size)
        self.decoder_pos_embed = nn.Embedding(settings.chunk_size, size)
        self.action_head = nn.Linear(size, action_size)

    def forward(self, inputs: dict[str, th.Tensor], deterministic: bool) -> th.Tensor:
        """Plans actions.

        Args:
            inputs: Scaled features by name, shape (n, 1, …).
            deterministic: Without effect: the policy has no noise.

        Returns:
            Shape (n, chunk, action size).
        """
        del deterministic
        now = {name: feature[:, -1] for name, feature in inputs.items()}
        latent = self.action_head.weight.new_zeros(len(next(iter(now.values()))), self.latent)
        tokens = [self.encoder_latent_input_proj(latent).unsqueeze(0)]
        if self.state is not None:
            state = self.encoder_robot_state_input_proj(now[self.state.name])
            tokens.append(state.unsqueeze(0))
        if self.environment is not None:
            environment = self.encoder_env_state_input_proj(now[self.environment.name])
            tokens.append(environment.unsqueeze(0))
        embeddings = [self.encoder_1d_feature_pos_embed.weight]
        for image in self.images:
            features = now[image.name]
            for stage in self.backbone.values():
                features = stage(features)
            seen = self.encoder_img_feat_input_proj(features)
            tokens.append(seen.flatten(2).permute(2, 0, 1))
            embeddings.append(position_embedding(features, seen.shape[1] // 2))
        positions = th.cat(embeddings).unsqueeze(1)
        encoded = self.encoder(th.cat(tokens), positions)
        asked = self.decoder_pos_embed.weight.unsqueeze(1)
        start = th.zeros_like(asked).expand(-1, encoded.shape[1], -1)
        decoded = self.decoder(start, asked, encoded, positions)
        result: th.Tensor = self.action_head(decoded.transpose(0, 1))
        return result
