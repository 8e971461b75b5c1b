"""Settings of off-policy trainings that take a moment."""

from imitbench.algorithms.off_policy.agent import AgentOptions
from imitbench.algorithms.off_policy.trainer import OffPolicyOptions


def small_options(**given):
    agent = AgentOptions(hidden_sizes=(16, 16), **given.pop("agent", {}))
    defaults = {"agent": agent, "batch_size": 8, "buffer_size": 500, "learning_starts": 20}
    return OffPolicyOptions(**defaults | given)
