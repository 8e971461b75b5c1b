"""States of optimizers that stay what they are."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch as th


def load_optimizer_state(optimizer: th.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Restores an optimizer and leaves the state to its owner, who may need it again.

    Args:
        optimizer: The optimizer, of the same parameters in the same groups.
        state: What its `state_dict` gave.

    Raises:
        ValueError: Groups or numbers of parameters differ.
    """
    # Torch goes on in the very tensors that it is given.
    optimizer.load_state_dict(copy.deepcopy(dict(state)))
