"""What tells the search that its objective cannot be had, whatever the values are."""


class UnsuitableObjectiveError(ValueError):
    """The method does not have what the objective asks for."""
