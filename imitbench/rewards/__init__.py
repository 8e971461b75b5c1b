"""Reward networks, and wrappers that put a learnt reward in place of the environment's own."""
