"""Regularization of networks, with a strength that may depend on the validation loss."""
