"""Variants of behavioral cloning with wrong checkpoints."""

import numpy as np

from imitbench.bench.learner import no_checkpoint
from imitbench.bench.learners.bc import BCLearner


class _Forgets(BCLearner):
    """Omits a part of its state, and continues with a new one."""

    part = ""

    def state_dict(self):
        state = super().state_dict()
        del state["bc"][self.part]
        return state

    def load_state_dict(self, state):
        new = self._bc.state_dict()[self.part]
        super().load_state_dict({**state, "bc": {**state["bc"], self.part: new}})


class ForgetsOptimizer(_Forgets):
    part = "optimizer"


class ForgetsGenerator(_Forgets):
    part = "rng"


class RestoresWithoutGenerator(BCLearner):
    """Saves its whole state, but does not restore all of it."""

    def load_state_dict(self, state):
        new = self._bc.state_dict()["rng"]
        super().load_state_dict({**state, "bc": {**state["bc"], "rng": new}})


class OffersNothing(BCLearner):
    def train(self, budget, callback, checkpoint=no_checkpoint):
        return super().train(budget, callback)


class Unseeded(BCLearner):
    def setup(self, task, demos, rng, device):
        super().setup(task, demos, np.random.default_rng(), device)


class Swallows(BCLearner):
    """Continues after any exception."""

    def train(self, budget, callback, checkpoint=no_checkpoint):
        def swallowed():
            try:
                checkpoint()
            except BaseException as error:
                print(error)

        return super().train(budget, callback, swallowed)


class KeepsAnObject(BCLearner):
    def state_dict(self):
        return {**super().state_dict(), "policy": self._bc.policy}
