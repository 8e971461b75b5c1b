"""Writes the LeRobot policies of this folder, and what LeRobot does with them.

    python -m venv lerobot && lerobot/bin/pip install lerobot==0.4.4
    lerobot/bin/python tests/policies/robot_policies/make_lerobot.py

The policies have random weights. `actions.json` has observations, and the actions that LeRobot's
`select_action` returns for them in one episode. Policies with images have too many weights for the
repository: `numbers_of` computes these, and only the other files are kept.
"""

import json
import math
import zlib
from pathlib import Path

import numpy as np
import torch as th

HERE = Path(__file__).parent
STEPS = 7
SMALL_ACT = {
    "chunk_size": 5, "dim_model": 8, "n_heads": 2, "dim_feedforward": 12, "n_encoder_layers": 2,
    "n_vae_encoder_layers": 1, "latent_dim": 4, "pretrained_backbone_weights": None,
    "device": "cpu", "push_to_hub": False,
}  # fmt: skip
SMALL_DIFFUSION = {
    "horizon": 8, "n_action_steps": 3, "down_dims": (8, 12), "n_groups": 4, "kernel_size": 3,
    "diffusion_step_embed_dim": 4, "num_train_timesteps": 10, "device": "cpu",
    "push_to_hub": False, "spatial_softmax_num_keypoints": 4,
}  # fmt: skip
# Policy, settings, and the shape of its image.
POLICIES = {
    "act": ("act", {**SMALL_ACT, "n_action_steps": 3}, None),
    "act_ensembled": (
        "act",
        {**SMALL_ACT, "n_action_steps": 1, "temporal_ensemble_coeff": 0.1, "pre_norm": True,
         "n_decoder_layers": 2, "feedforward_activation": "gelu"},
        None,
    ),
    "diffusion": ("diffusion", SMALL_DIFFUSION, None),
    "diffusion_ddim": (
        "diffusion",
        {**SMALL_DIFFUSION, "noise_scheduler_type": "DDIM", "num_inference_steps": 4,
         "prediction_type": "sample", "beta_schedule": "linear", "n_obs_steps": 3,
         "use_film_scale_modulation": False},
        None,
    ),
    "act_pixels": ("act", {**SMALL_ACT, "n_action_steps": 2}, (3, 40, 64)),
    "diffusion_pixels": (
        "diffusion",
        {**SMALL_DIFFUSION, "crop_shape": (84, 75), "prediction_type": "sample",
         "clip_sample": False},
        (3, 96, 90),
    ),
}  # fmt: skip
STATE, ENVIRONMENT, IMAGE = (
    "observation.state", "observation.environment_state", "observation.image",
)  # fmt: skip


def numbers_of(shapes):
    """Returns weights that follow from their names and shapes alone."""
    found = {}
    for name, shape in shapes.items():
        count = math.prod(shape)
        fan_in = max(1, math.prod(shape[1:]))
        # NumPy never changes what this generator draws.
        drawn = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(count)
        factors = name.endswith("running_var") or (len(shape) == 1 and name.endswith("weight"))
        drawn = 1 + 0.1 * drawn if factors else drawn * (1.5 / fan_in) ** 0.5
        found[name] = th.from_numpy(drawn.astype(np.float32).reshape(shape))
    return found


def is_fixed(name):
    """Whether a tensor of a policy has no weights: coordinates, sines, a count of batches."""
    return name.endswith(("pos_grid", "pos_enc", "num_batches_tracked"))


def observations(pixels):
    """Returns one observation for each step."""
    rng = np.random.default_rng(0)
    found = {
        STATE: rng.uniform(-1, 3, (STEPS, 2)).round(4),
        ENVIRONMENT: rng.uniform(0, 5, (STEPS, 3)).round(4),
    }
    if pixels is not None:
        # Not only other pixels at each step, but also another brightness.
        bright = [rng.integers(0, 30 + 36 * step, pixels) for step in range(STEPS)]
        found[IMAGE] = np.stack(bright).clip(0, 255)
    return found


def main():
    from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
    from lerobot.policies.factory import (
        get_policy_class,
        make_policy_config,
        make_pre_post_processors,
    )

    statistics = {
        STATE: {"min": [-1.0, -1.5], "max": [3.0, 3.5], "mean": [1.0, 0.9], "std": [1.2, 0.8]},
        ENVIRONMENT: {"min": [0.0] * 3, "max": [5.0, 5.5, 6.0], "mean": [2.0, 2.5, 3.0],
                      "std": [1.0, 1.5, 2.0]},
        "action": {"min": [-2.0, -1.0], "max": [2.0, 3.0], "mean": [0.1, 0.4], "std": [0.7, 1.1]},
        IMAGE: {"mean": [[[0.4]], [[0.5]], [[0.6]]], "std": [[[0.2]], [[0.25]], [[0.3]]]},
    }  # fmt: skip
    outcome = {}
    for name, (kind, settings, pixels) in POLICIES.items():
        seen = observations(pixels)
        inputs = {
            key: PolicyFeature(
                {STATE: FeatureType.STATE, ENVIRONMENT: FeatureType.ENV}.get(
                    key, FeatureType.VISUAL
                ),
                each.shape[1:],
            )
            for key, each in seen.items()
        }
        mapping = {
            "VISUAL": "MEAN_STD",
            "STATE": "MEAN_STD",
            "ENV": "MIN_MAX",
            "ACTION": "MEAN_STD",
        }
        if kind == "diffusion":
            mapping |= {"STATE": "MIN_MAX", "ACTION": "MIN_MAX"}
        config = make_policy_config(
            kind,
            input_features=inputs,
            output_features={"action": PolicyFeature(FeatureType.ACTION, (2,))},
            normalization_mapping={k: NormalizationMode(v) for k, v in mapping.items()},
            **settings,
        )
        th.manual_seed(1)
        policy = get_policy_class(kind)(config)
        shapes = {key: tuple(each.shape) for key, each in policy.state_dict().items()}
        if pixels is not None:
            fixed = numbers_of({k: s for k, s in shapes.items() if not is_fixed(k)})
            policy.load_state_dict({**policy.state_dict(), **fixed})
        used = {key: statistics[key] for key in [*seen, "action"]}
        stats = {key: {k: th.tensor(v) for k, v in each.items()} for key, each in used.items()}
        before, after = make_pre_post_processors(config, dataset_stats=stats)
        folder = HERE / name
        for part in (policy, before, after):
            part.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        if pixels is not None:
            (folder / "model.safetensors").unlink()
        policy.eval()
        policy.reset()
        th.manual_seed(5)
        actions = []
        for step in range(STEPS):
            now = {k: th.tensor(v[step], dtype=th.float32) for k, v in seen.items()}
            if pixels is not None:
                now[IMAGE] = now[IMAGE] / 255
            actions.append(after(policy.select_action(before(now)))[0].tolist())
        outcome[name] = actions
    (HERE / "actions.json").write_text(json.dumps(outcome, indent=1) + "\n")


if __name__ == "__main__":
    main()
