"""Small demonstrations in the formats of other tools, with the trajectories that they hold."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from imitbench.data.trajectories import TrajectoryWithRew


def episodes(lengths=(3, 5), *, obs=2, acts=None, seed=0):
    """Whole episodes with float64 observations; scalar integer actions unless `acts` is a size."""
    rng = np.random.default_rng(seed)
    return [
        TrajectoryWithRew(
            rng.normal(size=(length + 1, obs)),
            rng.integers(0, 2, length) if acts is None else rng.normal(size=(length, acts)),
            None,
            True,
            rng.normal(size=length),
        )
        for length in lengths
    ]


def steps(trajectories, *, next_obs=True, rewards=True):
    """Plain arrays with one row per step."""
    ends = np.concatenate([np.arange(len(t)) == len(t) - 1 for t in trajectories])
    found = {
        "obs": np.concatenate([t.obs[:-1] for t in trajectories]),
        "acts": np.concatenate([t.acts for t in trajectories]),
        "dones": ends,
    }
    if next_obs:
        found["next_obs"] = np.concatenate([t.obs[1:] for t in trajectories])
    if rewards:
        found["rewards"] = np.concatenate([t.rews for t in trajectories])
    return found


def write_npy(folder, arrays):
    folder.mkdir(parents=True)
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)


def write_csv(path, arrays):
    names, columns = [], []
    for name, values in arrays.items():
        if values.ndim == 1:
            names.append(name)
            columns.append(values.tolist())
        else:
            names += [f"{name}_{i}" for i in range(values.shape[1])]
            columns += values.T.tolist()
    rows = [",".join(str(value) for value in row) for row in zip(*columns, strict=True)]
    path.write_text("\n".join([",".join(names), *rows]) + "\n")


def write_robomimic(path, trajectories, *, next_obs=True, sensors=("arm", "gripper")):
    """One group per demonstration; each sensor has a part of the observation; and a camera."""
    import h5py

    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1})
        for number, t in enumerate(trajectories):
            demo = data.create_group(f"demo_{number}")
            demo["actions"], demo["rewards"] = t.acts, t.rews
            demo["dones"] = np.arange(len(t)) == len(t) - 1
            for part, values in (("obs", t.obs[:-1]), ("next_obs", t.obs[1:])):
                if part == "next_obs" and not next_obs:
                    continue
                for sensor, half in zip(sensors, np.split(values, len(sensors), 1), strict=True):
                    demo[f"{part}/{sensor}"] = half
                demo[f"{part}/camera"] = np.zeros((len(t), 4, 4, 3), np.uint8)


WHOLE_STATE = {"observation.state": slice(None)}


def write_lerobot(folder, trajectories, *, files=1, recordings=WHOLE_STATE, number="float64"):
    """Frames as LeRobot stores them; `files` files with consecutive episodes.

    `recordings` names the recordings, with the numbers of the observation that each has.
    """
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps({"codebase_version": "v3.0", "fps": 10}))
    for place, part in enumerate(np.array_split(np.arange(len(trajectories)), files)):
        chosen = [trajectories[number] for number in part]
        lengths = [len(t) for t in chosen]
        numbers = np.concatenate([t.obs[:-1] for t in chosen])
        table = pa.table(
            {
                **{
                    name: pa.array(list(part), pa.list_(pa.type_for_alias(number), part.shape[1]))
                    for name, columns in recordings.items()
                    for part in [numbers[:, columns]]
                },
                "observation.images.top": pa.array(["x.png"] * sum(lengths)),
                "action": pa.array([np.atleast_1d(a).tolist() for t in chosen for a in t.acts]),
                "next.reward": np.concatenate([t.rews for t in chosen]),
                "episode_index": np.repeat(part, lengths),
                "frame_index": np.concatenate([np.arange(length) for length in lengths]),
            }
        )
        path = folder / "data" / "chunk-000" / f"file-{place:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
