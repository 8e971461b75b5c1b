"""Image encoders with the weight names of torchvision's ResNet, as LeRobot's policies use them."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch as th
from torch import nn
from torch.nn import functional

BLOCKS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3)}
"""Residual blocks of each stage, by name of the network (He et al. 2016, Table 1)."""

IMAGE_FEATURES = 512
"""Channels of the last stage."""

_Norm = Callable[[int], nn.Module]


class FrozenBatchNorm(nn.Module):
    """Batch normalization with fixed statistics and factors.

    Args:
        channels: Number of channels.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("weight", th.ones(channels))
        self.register_buffer("bias", th.zeros(channels))
        self.register_buffer("running_mean", th.zeros(channels))
        self.register_buffer("running_var", th.ones(channels))

    def forward(self, x: th.Tensor) -> th.Tensor:
        """Normalizes images, shape (n, channels, rows, columns)."""
        weight, bias, mean, variance = (
            getattr(self, name).reshape(1, -1, 1, 1)
            for name in ("weight", "bias", "running_mean", "running_var")
        )
        scale = weight * (variance + 1e-5).rsqrt()
        result: th.Tensor = x * scale + (bias - mean * scale)
        return result


def group_norm(channels: int) -> nn.Module:
    """Group normalization with groups of 16 channels."""
    return nn.GroupNorm(channels // 16, channels)


class _Block(nn.Module):
    """A basic residual block (He et al. 2016, Figure 2)."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: _Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = norm(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs)
            )

    def forward(self, x: th.Tensor) -> th.Tensor:
        skipped = x if self.downsample is None else self.downsample(x)
        out = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(out)) + skipped)


def resnet_stages(name: str, norm: _Norm) -> dict[str, nn.Module]:
    """Returns the layers of a ResNet up to its last stage, by name, in order.

    Args:
        name: One of `BLOCKS`.
        norm: Returns the normalization for a number of channels.
    """
    stages: dict[str, nn.Module] = {
        "conv1": nn.Conv2d(3, 64, 7, 2, padding=3, bias=False),
        "bn1": norm(64),
        "relu": nn.ReLU(),
        "maxpool": nn.MaxPool2d(3, 2, padding=1),
    }
    inputs = 64
    for number, count in enumerate(BLOCKS[name]):
        outputs = 64 * 2**number
        blocks = []
        for index in range(count):
            stride = 2 if number and not index else 1
            blocks.append(_Block(inputs, outputs, stride, norm))
            inputs = outputs
        stages[f"layer{number + 1}"] = nn.Sequential(*blocks)
    return stages


class SpatialSoftmax(nn.Module):
    """Expected position of each keypoint, in coordinates from -1 to 1 (Finn et al. 2016).

    Args:
        channels: Channels of the feature map.
        rows: Its rows.
        columns: Its columns.
        keypoints: Number of keypoints.
    """

    def __init__(self, channels: int, rows: int, columns: int, keypoints: int) -> None:
        super().__init__()
        self.nets = nn.Conv2d(channels, keypoints, kernel_size=1)
        y, x = th.meshgrid(th.linspace(-1, 1, rows), th.linspace(-1, 1, columns), indexing="ij")
        self.register_buffer("pos_grid", th.stack([x.flatten(), y.flatten()], dim=1))

    def forward(self, features: th.Tensor) -> th.Tensor:
        """Returns x and y of each keypoint, shape (n, 2 * keypoints)."""
        attention = self.nets(features).flatten(2).softmax(dim=-1)
        result: th.Tensor = (attention @ self.pos_grid).flatten(1)
        return result


class KeypointEncoder(nn.Module):
    """A ResNet with keypoints, as in LeRobot's diffusion policy.

    Args:
        name: One of `BLOCKS`.
        shape: Rows and columns of the images.
        resized: Rows and columns to which they are resized; `None` to leave them.
        cropped: Rows and columns of the center that is kept; `None` for all.
        keypoints: Number of keypoints.
        norm: Returns the normalization for a number of channels.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, int],
        resized: tuple[int, int] | None,
        cropped: tuple[int, int] | None,
        keypoints: int,
        norm: _Norm,
    ) -> None:
        super().__init__()
        self.resized, self.cropped = resized, cropped
        self.backbone = nn.Sequential(*resnet_stages(name, norm).values())
        # Five steps halve the size, rounded up.
        rows, columns = (math.ceil(size / 32) for size in cropped or resized or shape)
        self.pool = SpatialSoftmax(IMAGE_FEATURES, rows, columns, keypoints)
        self.feature_dim = 2 * keypoints
        self.out = nn.Linear(self.feature_dim, self.feature_dim)

    def forward(self, images: th.Tensor) -> th.Tensor:
        """Encodes images, shape (n, 3, rows, columns), to shape (n, 2 * keypoints)."""
        if self.resized is not None:
            images = functional.interpolate(
                images, list(self.resized), mode="bilinear", antialias=True
            )
        if self.cropped is not None:
            top, left = (
                round((size - kept) / 2)
                for size, kept in zip(images.shape[2:], self.cropped, strict=True)
            )
            rows, columns = self.cropped
            images = images[:, :, top : top + rows, left : left + columns]
        return functional.relu(self.out(self.pool(self.backbone(images))))


def position_embedding(features: th.Tensor, dimension: int) -> th.Tensor:
    """Sines and cosines of rows and columns (Carion et al. 2020), as ACT adds them to an image.

    Args:
        features: A feature map, shape (n, channels, rows, columns).
        dimension: Numbers for the rows, and for the columns.

    Returns:
        Shape (rows * columns, 2 * dimension).
    """
    rows, columns = features.shape[2:]
    index = th.arange(dimension, dtype=th.float32, device=features.device) // 2
    frequency = 10_000 ** (2 * index / dimension)

    def waves(size: int) -> th.Tensor:
        position = th.arange(1, size + 1, dtype=th.float32, device=features.device)
        angle = (position / (position[-1] + 1e-6) * 2 * math.pi).unsqueeze(-1) / frequency
        return th.stack([angle[:, 0::2].sin(), angle[:, 1::2].cos()], dim=-1).flatten(1)

    down = waves(rows).unsqueeze(1).expand(rows, columns, -1)
    across = waves(columns).unsqueeze(0).expand(rows, columns, -1)
    return th.cat([down, across], dim=-1).flatten(0, 1)
