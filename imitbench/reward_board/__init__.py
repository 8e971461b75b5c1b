"""What learned rewards are worth, measured on the runs of a results folder."""
