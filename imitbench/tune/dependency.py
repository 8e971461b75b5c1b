"""Optuna, which not everybody needs."""

from __future__ import annotations

from importlib.util import find_spec

from imitbench.errors import InputError


def require_optuna() -> None:
    """Makes sure that Optuna can be imported, and that it keeps quiet.

    Raises:
        InputError: It is not installed.
    """
    if find_spec("optuna") is None:
        raise InputError("tuning needs Optuna: pip install 'imitbench[tune]'")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
