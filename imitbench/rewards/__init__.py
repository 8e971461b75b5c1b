"""Reward networks, and wrappers that replace an environment's reward with a learned one."""
