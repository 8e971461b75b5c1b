"""Regularization of networks, with a strength that may follow the validation loss."""
