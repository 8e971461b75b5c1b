"""Run folders as written by Sacred and the reference library's scripts."""

import copy
import json

RUN = {
    "command": "bc",
    "experiment": {"name": "train_imitation", "dependencies": ["imitation==1.0.1", "torch==2.2"]},
    "heartbeat": "2024-01-01T00:01:00.000000",
    "host": {"hostname": "secret-host", "python_version": "3.11"},
    "result": {
        "imit_stats": {
            "n_traj": 50, "len_mean": 200.0, "return_mean": 10.0, "return_std": 1.0,
            "monitor_return_mean": 90.0, "monitor_return_std": 2.0, "monitor_return_len": 50,
        },
        "expert_stats": {"n_traj": 24, "return_mean": 100.0, "return_std": 3.0},
    },
    "start_time": "2024-01-01T00:00:00.000000",
    "stop_time": "2024-01-01T00:01:30.500000",
    "status": "COMPLETED",
}  # fmt: skip
CONFIG = {
    "seed": 3,
    "environment": {"gym_id": "Pendulum-v1"},
    "demonstrations": {"n_expert_demos": None, "source": "local"},
    "bc": {"optimizer_cls": {"py/type": "torch.optim.adam.Adam"}},
    "logging": {"log_dir": "somewhere"},
    "dagger": {"total_timesteps": 2000, "use_offline_rollouts": False},
    "total_timesteps": 10_000,
}


def write_sacred(folder, run=None, config=None):
    """Writes a run folder.

    Args:
        folder: Folder of the run.
        run: Changes of `RUN`; keys with the value `None` are removed.
        config: Changes of `CONFIG`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, usual, other in (("run", RUN, run), ("config", CONFIG, config)):
        document = copy.deepcopy(usual) | (other or {})
        document = {key: value for key, value in document.items() if value is not None}
        (folder / f"{name}.json").write_text(json.dumps(document))
    return folder
