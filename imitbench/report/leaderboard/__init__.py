"""Builds the leaderboard: a static site of published results, also as JSON, CSV and Markdown."""
