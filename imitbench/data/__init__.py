"""Trajectories: types, collection and storage."""
