"""Arguments of the Python interface, in the form in which the harness takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from imitbench.errors import InputError, did_you_mean
from imitbench.util.name_lists import join_names, split_names

if TYPE_CHECKING:
    from imitbench.bench.plan import DemoChoice
    from imitbench.executors.options import RunOptions
    from imitbench.race.planning import PlannedRace
    from imitbench.store.sweep_file import SweepRequest
    from imitbench.util.hub_errors import Notify


def make_request(**values: Any) -> SweepRequest:
    """Builds a request, and checks the types of its values.

    Raises:
        InputError: A value has a wrong type.
    """
    from pydantic import ValidationError

    from imitbench.store.sweep_file import SweepRequest

    try:
        return SweepRequest(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = {"algorithms": "algos", "environment": "env"}.get(*[str(first["loc"][0])] * 2)
        problem = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{name} {first['input']!r}: {problem}") from error


def algorithm_list(algos: str | Sequence[str]) -> list[str]:
    """Returns names of algorithms as a list.

    Raises:
        InputError: There are none.
    """
    names = split_names("--algo", algos)
    if not names:
        raise InputError("algos: is empty; see `imitbench algos`")
    return names


def seed_list(seeds: int | Sequence[int] | str) -> list[int]:
    """Returns seeds as a list, from a count, the seeds themselves, or text as on the command line.

    Raises:
        InputError: They are no seeds.
    """
    from imitbench.bench.plan import parse_seeds

    if isinstance(seeds, (int, str)):
        return parse_seeds(str(seeds))
    chosen = list(dict.fromkeys(seeds))
    if not chosen or any(not isinstance(seed, int) or seed < 0 for seed in chosen):
        raise InputError(f"seeds {chosen}: must be a count, or seeds of 0 and above")
    return chosen


def check_choice(name: str, value: str | None, accepted: Sequence[str | None]) -> None:
    """Checks that an argument has one of the accepted values.

    Raises:
        InputError: It has another.
    """
    if value not in accepted:
        known = [choice for choice in accepted if choice is not None]
        raise InputError(f"{name} {value}: not accepted; {did_you_mean(str(value), known)}")


def demo_choice(
    n_demos: int | Sequence[int | None] | None,
    demo_every: int | None,
    regime: str | Sequence[str] | None,
    actions: Literal["shown", "hidden"] | None,
    mixture: Mapping[str, int] | None,
) -> DemoChoice:
    """Returns how much of the demonstrations was requested.

    Raises:
        InputError: A number is not positive, or arguments exclude each other.
    """
    from imitbench.bench.plan import DemoChoice
    from imitbench.cards.demonstrations import mixture_text

    check_choice("actions", actions, ("shown", "hidden", None))
    text = None
    if n_demos is not None:
        counts = [n_demos] if isinstance(n_demos, int) else list(n_demos)
        text = ",".join("all" if count is None else str(count) for count in counts)
    names = regime if regime is None or isinstance(regime, str) else ",".join(regime)
    parts = None if mixture is None else mixture_text(mixture)
    return DemoChoice.parse(text, demo_every, names, actions, parts)


def shared_settings(given: Mapping[str, Any], options: RunOptions) -> dict[str, Any]:
    """Returns the fields of a request that all functions have under the same names.

    Args:
        given: Arguments of the function, by name.
        options: Execution options.
    """
    from imitbench.bench.request import lock_in_use
    from imitbench.cards.algorithm import setting_text

    lock, overrides = given["lock"], given["overrides"] or {}
    return {
        **{name: given[name] for name in ("config", "budget", "source")},
        "suite": str(given["suite"]),
        "environment": join_names("--env", given["env"]),
        "overrides": {name: setting_text(value) for name, value in overrides.items()},
        "lock": lock_in_use(None if lock is None else Path(lock), given["source"]),
        "device": options.device_class,
        "folder": str(Path.cwd()),
    }


def planned_race(
    given: Mapping[str, Any], options: RunOptions, command: str, notify: Notify
) -> PlannedRace:
    """Plans and registers a race.

    Args:
        given: Arguments of the function, by name.
        options: Execution options.
        command: The call, for provenance.
        notify: Called with messages.

    Raises:
        InputError: As `imitbench.race`.
    """
    from imitbench.race.planning import RaceOptions, plan_race

    choice = ("n_demos", "demo_every", "regime", "actions", "mixture")
    demos = demo_choice(*(given[name] for name in choice))
    own = demos.only(str(given["suite"]), "a race").recorded
    rules = ("batch", "max_seeds", "alpha", "margin", "failed_runs", "acting")
    return plan_race(
        algorithm_list(given["new"]),
        algorithm_list(given["baseline"]),
        make_request(algorithms=[], seeds=[], **own, **shared_settings(given, options)),
        RaceOptions(*(given[name] for name in rules)),
        command=command,
        out=Path(given["out"]),
        notify=notify,
    )


def call_text(function: str, given: Mapping[str, Any]) -> str:
    """Returns the call as Python source, without arguments that are `None`."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
    return f"imitbench.{function}({arguments})"
