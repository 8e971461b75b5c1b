"""Reinforcement learning inside imitation: a lean PPO behind Stable-Baselines3's interface."""
