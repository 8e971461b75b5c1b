"""A small environment in which occupancies and soft values are computed exactly."""

import torch as th


class SoftMdp:
    """Transitions and initial states drawn at random, an expert, and a temperature; float64."""

    def __init__(self, states=4, actions=2, gamma=0.8, temperature=0.5, seed=0):
        generator = th.Generator().manual_seed(seed)
        random = {"generator": generator, "dtype": th.float64}
        self.gamma, self.temperature = gamma, temperature
        ahead = th.rand(states, actions, states, **random) ** 3
        self.transitions = ahead / ahead.sum(-1, keepdim=True)
        start = th.rand(states, **random)
        self.initial = start / start.sum()
        self.expert = th.softmax(2 * th.randn(states, actions, **random), -1)
        self.uniform = th.full_like(self.expert, 1 / actions)

    def occupancy(self, policy):
        """Discounted probabilities of state and action."""
        chain = th.einsum("sa,sat->st", policy, self.transitions)
        flow = th.eye(len(chain), dtype=chain.dtype) - self.gamma * chain.T
        visits = th.linalg.solve(flow, (1 - self.gamma) * self.initial)
        return visits.unsqueeze(1) * policy

    def policy(self, q):
        return th.softmax(q / self.temperature, -1)

    def values(self, q):
        return self.temperature * th.logsumexp(q / self.temperature, -1)

    def ahead(self, values):
        """Gamma * E[V(s')] after each state and action."""
        return self.gamma * self.transitions @ values

    def rewards(self, q):
        """The reward of which these are the soft values."""
        return q - self.ahead(self.values(q))

    def solved(self, rewards):
        """Soft values of a reward, by value iteration."""
        q = th.zeros_like(rewards)
        for _ in range(200):
            q = rewards + self.ahead(self.values(q))
        return q


def minimized(loss, start):
    """Newton's method with halved steps, for losses of a few numbers."""
    point = start
    for _ in range(100):
        slope = th.func.grad(loss)(point).flatten()
        if slope.abs().max() < 1e-10:
            break
        curvature = th.func.hessian(loss)(point).reshape(len(slope), -1)
        lengths, axes = th.linalg.eigh(curvature)
        step = -(axes @ ((axes.T @ slope) / lengths.abs().clamp_min(1e-9))).view_as(point)
        before, share = loss(point), 1.0
        while loss(point + share * step) > before and share > 1e-6:
            share /= 2
        point = point + share * step
    return point
