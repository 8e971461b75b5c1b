"""Imitation learning from a replay buffer: one agent, and a class for each method."""
