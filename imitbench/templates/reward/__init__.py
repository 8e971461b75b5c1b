"""Template of a method that learns a reward, and trains a policy on it."""
