"""Small policies of sequences, and demonstrations for them."""

import numpy as np
from gymnasium import spaces

from imitbench.data.trajectories import Trajectory
from imitbench.policies.sequences.act import ACTPolicy
from imitbench.policies.sequences.bc_rnn import RecurrentPolicy
from imitbench.policies.sequences.diffusion import DiffusionPolicy
from imitbench.policies.sequences.flow import FlowChunkPolicy

OBS = spaces.Box(-10.0, 10.0, (3,), np.float32)
ACTS = spaces.Box(-2.0, 2.0, (2,), np.float32)
SMALL_NET = {"history": 2, "horizon": 4, "execute": 2, "channels": 8, "levels": 1}
SMALL_ACT = {
    "chunk": 4, "hidden_size": 8, "heads": 2, "encoder_layers": 1, "feedforward": 8, "latent": 2,
}  # fmt: skip
POLICIES = {
    "bc_rnn": (RecurrentPolicy, {"horizon": 4, "hidden_size": 8, "layers": 2, "low_noise": False}),
    "act": (ACTPolicy, SMALL_ACT),
    "act without ensembling": (ACTPolicy, {**SMALL_ACT, "temporal_ensembling": False}),
    "diffusion": (DiffusionPolicy, {**SMALL_NET, "train_steps": 10, "sample_steps": 2}),
    "flow": (FlowChunkPolicy, {**SMALL_NET, "flow_steps": 2}),
}


def demonstrations(count=4, steps=10, obs=OBS, acts=ACTS):
    """Episodes of random observations and actions."""
    obs.seed(0)
    acts.seed(0)
    return [
        Trajectory(
            obs=np.array([obs.sample() for _ in range(steps + 1)]),
            acts=np.array([acts.sample() for _ in range(steps)]),
            infos=None,
            terminal=True,
        )
        for _ in range(count)
    ]
