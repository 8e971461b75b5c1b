"""`imitbench record`: a person demonstrates on a local page; the episodes become a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from imitbench.cli import completion, options
from imitbench.cli.local_pages import open_browser, serve_until_stopped
from imitbench.cli.options import option
from imitbench.cli.output import count, note, print_json

_Env = Annotated[
    str,
    option("--env", "Environment to act in.", "ID", completion.environments, show_default=False),
]
_To = Annotated[
    Path | None,
    option(
        "--to",
        "Folder of the data set, which is created or continued [recorded/ENV].",
        "DIR",
        file_okay=False,
    ),
]
_Rate = Annotated[
    float | None,
    option("--rate", "Steps per second [the environment's own].", "HZ", min=10, max=60),
]
_Controls = Annotated[
    Path | None,
    option("--controls", "YAML or JSON file that maps inputs to actions.", "FILE", dir_okay=False),
]
_Success = Annotated[
    str | None,
    option(
        "--success",
        "Entry of info that says whether the task is done, perhaps with :end if only the last "
        "step counts [the suite card's rule].",
        "KEY",
    ),
]


def record(
    env: _Env,
    suite: options.SuiteOfEnv = None,
    to: _To = None,
    episodes: Annotated[
        int, option("--episodes", "Episodes to keep, those in the folder included.", min=1)
    ] = 10,
    rate: _Rate = None,
    controls: _Controls = None,
    show_controls: Annotated[
        bool, option("--show-controls", "Print the controls as YAML for --controls, and end.")
    ] = False,
    success: _Success = None,
    undo: Annotated[
        float, option("--undo", "Seconds that one undo takes back.", "SECONDS", min=0.1, max=600)
    ] = 2.0,
    seed: Annotated[int, option("--seed", "Determines the starts.", min=0)] = 0,
    port: Annotated[int, option("--port", "Port; 0 for any.", min=0, max=65535)] = 8898,
    no_browser: Annotated[bool, option("--no-browser", "Only print the link.")] = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Demonstrate a task on a local page, with mouse, keyboard or gamepad.

    Each episode that you keep is on disk at once, with observations, actions, rewards and infos.
    The same command goes on where it was left, and ends when enough episodes are kept. Only this
    machine can open the page. The link, which has a secret, is printed on stdout.

    Example: imitbench record --env gym_pusht/PushT-v0 --episodes 20
    """
    from imitbench.experts.lookup import find_environment
    from imitbench.recording.episode_store import EpisodeStore
    from imitbench.recording.server import RecordingServer
    from imitbench.recording.session import Session
    from imitbench.recording.simulation import Simulation
    from imitbench.recording.task import controls_for, make_task

    spec = find_environment(env, suite)
    mapping = controls_for(spec, controls)
    if show_controls:
        _print_controls(mapping.model_dump(mode="json", exclude_none=True), json=json)
        return
    task = make_task(
        spec, mapping, rate_hz=rate, goal=episodes, undo_s=undo, seed=seed, success=success
    )
    folder = to or Path("recorded") / env.replace("/", "-").replace(":", "-")
    store = EpisodeStore(folder, spec.id, task.stored_kwargs)
    try:
        if not quiet and len(store):
            note(f"{folder}: goes on after {count(len(store), 'episode')}")
        with (
            Simulation(lambda: Session(task, store), task.rate_hz) as simulation,
            RecordingServer(simulation, spec.id, mapping, port) as server,
        ):

            def serve() -> None:
                if json:
                    print_json({"url": server.url, "folder": str(folder)})
                else:
                    typer.echo(server.url)
                if not quiet:
                    note("what you keep is stored at once; Ctrl-C ends the page")
                if not no_browser and not open_browser(server.url) and not quiet:
                    note("no browser found: open the address yourself")
                server.wait()

            serve_until_stopped(serve)
        kept = len(store)
    finally:
        store.close()
    if not quiet:
        more = "" if kept >= episodes else "; the same command goes on"
        note(f"{folder}: {count(kept, 'episode')} of {episodes} kept{more}")


def _print_controls(controls: dict[str, Any], *, json: bool) -> None:
    import yaml

    if json:
        print_json(controls)
    else:
        typer.echo(yaml.safe_dump(controls, sort_keys=False).rstrip())
