"""Faster variants of PPO, SAC and DQN with the interface of Stable-Baselines3."""
