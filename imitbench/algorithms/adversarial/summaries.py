"""TensorBoard summaries of a discriminator: its graph, and histograms of its logits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch as th

from imitbench.algorithms.adversarial.expert_batches import FIELDS, Array
from imitbench.rewards.reward_nets import RewardNet
from imitbench.util.extras import import_extra
from imitbench.util.util import AnyPath

_INTERVAL = 20


class Summaries:
    """Writes summaries to `summary/` in a folder.

    Args:
        log_dir: Parent folder, created if missing.
        net: Network whose graph is written with the first summary; `None` for no graph.
    """

    def __init__(self, log_dir: AnyPath, net: RewardNet | None) -> None:
        import_extra("tensorboard", "tensorboard", "init_tensorboard=True")
        from torch.utils.tensorboard import SummaryWriter

        folder = Path(os.fsdecode(log_dir)) / "summary"
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = SummaryWriter(str(folder))
        self._net = net

    def write(self, step: int, logits: th.Tensor, batch: Mapping[str, Array]) -> None:
        """Writes the logits of every 20th step.

        Args:
            step: Number of the discriminator's update, from 1.
            logits: The discriminator's logits, shape (batch,).
            batch: Transitions under `FIELDS`; the first traces the graph.
        """
        if self._net is not None:
            inputs = self._net.preprocess(*(batch[name][:1] for name in FIELDS))
            self._writer.add_graph(self._net, inputs)
            self._net = None
        if step % _INTERVAL == 0:
            self._writer.add_histogram("disc_logits", logits, step)
            self._writer.flush()
