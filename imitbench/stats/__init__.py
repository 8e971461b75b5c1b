"""Statistics over normalized scores: NumPy in, named records out."""
