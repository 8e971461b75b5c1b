"""The optional dependency Optuna."""

from __future__ import annotations

from imitbench.util.extras import import_extra


def require_optuna() -> None:
    """Checks that Optuna can be imported, and limits its log to errors.

    Raises:
        InputError: Optuna is not installed.
    """
    optuna = import_extra("optuna", "tune", "tuning")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
