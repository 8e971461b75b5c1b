"""Deep reinforcement learning from human preferences: a reward learnt from comparisons.

Christiano et al., https://arxiv.org/abs/1706.03741.
"""
