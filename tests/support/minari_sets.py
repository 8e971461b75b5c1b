"""Small data sets in Minari's format, recorded on this machine."""

import warnings

import numpy as np


def record(name, env, *, episodes=3, steps=20):
    """Acts at random and saves the episodes in `MINARI_DATASETS_PATH`.

    Every episode is truncated after `steps`; the second one is not marked as ended.

    Returns:
        The observations of each episode.
    """
    import minari
    from minari.data_collector.episode_buffer import EpisodeBuffer

    env.action_space.seed(0)
    buffers, played = [], []
    for number in range(episodes):
        observations, actions, rewards, ends = [env.reset(seed=number)[0]], [], [], []
        for _ in range(steps):
            actions.append(env.action_space.sample())
            observation, reward, terminated, _, _ = env.step(actions[-1])
            observations.append(observation)
            rewards.append(float(reward))
            ends.append(terminated)
            if terminated:
                break
        truncations = [False] * (len(ends) - 1) + [number != 1]
        keyed = isinstance(observations[0], dict)
        stacked = {"a": [each["a"] for each in observations]} if keyed else observations
        buffers.append(
            EpisodeBuffer(
                observations=stacked,
                actions=actions,
                rewards=rewards,
                terminations=ends,
                truncations=truncations,
            )
        )
        played.append(observations if keyed else np.array(observations))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about authors and reference scores
        minari.create_dataset_from_buffers(name, buffers, env=env, data_format="arrow")
    return played
