"""Adversarial imitation learning: GAIL and AIRL."""
