"""Plug-in methods for tests whose policy is a class of their own."""

from support.plugins import write_plugin

LEARNER = """
import torch as th
from imitbench.bench.learner import Learner, no_checkpoint
from imitbench.data.rollout import flatten_trajectories

from .policy import {policy}


class Mine(Learner):
    def setup(self, task, demos, rng, device):
        transitions = flatten_trajectories(demos)
        self.obs = th.tensor(transitions.obs).float()
        self.acts = th.tensor(transitions.acts)
        self.net = {policy}(task.observation_space, task.action_space, {arguments})
        self.adam = th.optim.Adam(self.net.parameters(), 1e-2)
        self.rng, self.batches = rng, 0

    def train(self, budget, callback, checkpoint=no_checkpoint):
        while self.batches < budget.amount:
            batch = self.rng.integers(len(self.obs), size=64)
            loss = self.net.loss(self.obs[batch], self.acts[batch])
            self.adam.zero_grad()
            loss.backward()
            self.adam.step()
            self.batches += 1
            callback(self.batches, {{"loss": loss.item()}})
            checkpoint()
        return 0

    def policy(self):
        return self.net

    def state_dict(self):
        return {{
            "net": self.net.state_dict(),
            "adam": self.adam.state_dict(),
            "rng": self.rng.bit_generator.state,
            "batches": self.batches,
        }}

    def load_state_dict(self, state):
        self.net.load_state_dict(state["net"])
        self.adam.load_state_dict(state["adam"])
        self.rng.bit_generator.state = state["rng"]
        self.batches = state["batches"]
"""

ENSEMBLE = """
import torch as th
from stable_baselines3.common.policies import BasePolicy
from torch import nn


class Ensemble(BasePolicy):
    def __init__(self, observation_space, action_space, members, units=8):
        super().__init__(observation_space, action_space)
        self.members, self.units = members, units
        size = observation_space.shape[0]
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(size, units), nn.Tanh(), nn.Linear(units, action_space.n))
            for _ in range(members)
        )
        self.register_buffer("bound", th.full((), float("inf")))

    def loss(self, obs, acts):
        losses = [nn.functional.cross_entropy(net(obs), acts) for net in self.nets]
        return th.stack(losses).mean()

    def _predict(self, observation, deterministic=False):
        logits = th.stack([net(observation.float()) for net in self.nets])
        if deterministic:
            return logits.mean(0).argmax(1)
        chosen = logits[th.randint(self.members, ()).item()]
        return th.distributions.Categorical(logits=chosen).sample()
"""


def write_own_policy(folder, policy, name="mine", cls="Ensemble", arguments="members=3"):
    """Writes a method with discrete actions, and its policy; returns its folder.

    Args:
        folder: Folder to write.
        policy: Source of the module that defines the policy.
        name: Name of the method.
        cls: Name of the policy's class, which has a method `loss` of observations and actions.
        arguments: Arguments of its constructor, after the spaces.
    """
    write_plugin(folder, LEARNER.format(policy=cls, arguments=arguments), name=name)
    card = folder / "card.yaml"
    card.write_text(card.read_text().replace("[box]", "[discrete]"))
    (folder / "policy.py").write_text(policy)
    return folder


def write_ensemble(folder, name="mine"):
    """Writes a method that trains an ensemble of networks; returns its folder."""
    return write_own_policy(folder, ENSEMBLE, name)
