"""Supplements of mixed quality, for methods whose card asks for one."""

from dataclasses import replace

import numpy as np

from imitbench.bench.learner import LearnerWrapper, Supplement
from imitbench.data.types import TrajectoryWithRew


class Supplemented(LearnerWrapper):
    """A learner that also gets a supplement: its demonstrations, each with random actions."""

    def setup(self, task, demos, rng, device):
        """Sets the learner up."""
        self.learner.setup(
            replace(task, supplement=supplement_like(task, demos)), demos, rng, device
        )


def supplement_like(task, demos):
    """Returns trajectories with the observations of demonstrations, and random actions."""
    draw = np.random.default_rng(0)
    space = task.action_space

    def random_actions(acts):
        if hasattr(space, "n"):
            return draw.integers(space.n, size=acts.shape)
        return draw.uniform(space.low, space.high, acts.shape).astype(acts.dtype)

    return Supplement(
        [
            TrajectoryWithRew(
                obs=demo.obs,
                acts=random_actions(demo.acts),
                infos=None,
                terminal=demo.terminal,
                rews=np.full(len(demo), np.nan),
            )
            for demo in demos
        ]
    )
