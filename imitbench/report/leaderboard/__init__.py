"""The leaderboard: a static site of published results, and the same as JSON and CSV."""
