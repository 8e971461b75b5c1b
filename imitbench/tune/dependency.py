"""Optuna, which not everybody needs."""

from __future__ import annotations

from imitbench.util.extras import import_extra


def require_optuna() -> None:
    """Makes sure that Optuna can be imported, and that it keeps quiet.

    Raises:
        InputError: It is not installed.
    """
    optuna = import_extra("optuna", "tune", "tuning")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
