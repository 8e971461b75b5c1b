"""Writes the robomimic checkpoints of this folder, and what robomimic does with them.

    python -m venv robomimic && robomimic/bin/pip install robomimic==0.3.0
    robomimic/bin/python tests/policies/robot_policies/make_robomimic.py

The policies have random weights. `robomimic.json` has observations, and the actions that
robomimic's `RolloutPolicy` returns for them in one episode.
"""

import json
from pathlib import Path

import numpy as np
import torch as th

HERE = Path(__file__).parent
STEPS = 7
SHAPES = {"object": [3], "robot0_eef_pos": [2]}
RNN = {"enabled": True, "horizon": 3, "hidden_dim": 5, "num_layers": 2}
GMM = {"enabled": True, "num_modes": 3}
# Settings of the algorithm, and whether observations are normalized.
POLICIES = {
    "bc": ({"actor_layer_dims": [8, 6]}, True),
    "bc_gaussian": ({"actor_layer_dims": [8], "gaussian": {"enabled": True}}, False),
    "bc_gmm": ({"actor_layer_dims": [8], "gmm": {**GMM, "low_noise_eval": False}}, False),
    "bc_rnn": ({"actor_layer_dims": [], "rnn": {**RNN, "rnn_type": "GRU"}}, True),
    "bc_rnn_gmm": ({"actor_layer_dims": [6], "rnn": {**RNN, "rnn_type": "LSTM"}, "gmm": GMM}, True),
    "bc_rnn_open_loop": (
        {"actor_layer_dims": [], "rnn": {**RNN, "rnn_type": "LSTM", "open_loop": True}}, False
    ),
}  # fmt: skip


def observations():
    """Returns one observation for each step."""
    rng = np.random.default_rng(0)
    return {key: rng.uniform(-2, 2, (STEPS, *shape)).round(4) for key, shape in SHAPES.items()}


def update(config, changes):
    for key, value in changes.items():
        if isinstance(value, dict):
            update(config[key], value)
        else:
            config[key] = value


def main():
    import robomimic.utils.file_utils as files
    import robomimic.utils.obs_utils as obs_utils
    import robomimic.utils.train_utils as train_utils
    from robomimic.algo import RolloutPolicy, algo_factory
    from robomimic.config import config_factory

    statistics = {
        "object": {"mean": np.array([[0.5, -0.5, 0.1]]), "std": np.array([[1.5, 0.7, 1.1]])},
        "robot0_eef_pos": {"mean": np.array([[0.3, 0.2]]), "std": np.array([[0.9, 1.2]])},
    }
    seen = observations()
    outcome = {}
    for name, (changes, normalized) in POLICIES.items():
        config = config_factory("bc")
        with config.values_unlocked():
            update(config.algo, changes)
            config.observation.modalities.obs.low_dim = list(SHAPES)
            config.train.hdf5_normalize_obs = normalized
        config.lock()
        obs_utils.initialize_obs_utils_with_config(config)
        th.manual_seed(1)
        model = algo_factory(
            "bc", config, obs_key_shapes=dict(SHAPES), ac_dim=2, device=th.device("cpu")
        )
        path = HERE / f"{name}.pth"
        train_utils.save_model(
            model, config, {"env_name": "Lift", "type": 1, "env_kwargs": {}},
            {"ac_dim": 2, "all_shapes": dict(SHAPES), "all_obs_keys": list(SHAPES),
             "use_images": False},
            str(path), obs_normalization_stats=statistics if normalized else None,
        )  # fmt: skip
        policy, _ = files.policy_from_checkpoint(device=th.device("cpu"), ckpt_path=str(path))
        assert isinstance(policy, RolloutPolicy)
        policy.start_episode()
        th.manual_seed(5)
        outcome[name] = [
            policy({key: each[step] for key, each in seen.items()}).tolist()
            for step in range(STEPS)
        ]
    (HERE / "robomimic.json").write_text(json.dumps(outcome, indent=1) + "\n")


if __name__ == "__main__":
    main()
