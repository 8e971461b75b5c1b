"""The error of an objective that does not apply, for any values."""


class UnsuitableObjectiveError(ValueError):
    """The method does not support the objective."""
