"""`imitbench dashboard`: opens a local page over a results folder."""

from __future__ import annotations

from typing import Annotated

import typer

from imitbench.cli import completion, options
from imitbench.cli.local_pages import open_browser, serve_until_stopped
from imitbench.cli.options import option
from imitbench.cli.output import note, print_json
from imitbench.errors import InputError


def dashboard(
    out: Annotated[
        str,
        option(
            "--out",
            "Results folder, or a folder of published results, or 'published'.",
            "DIR",
            completion.results_locations,
        ),
    ] = str(options.DEFAULT_OUT),
    port: Annotated[
        int, option("--port", "Port to listen on; 0 for any free one.", "N", min=0, max=65535)
    ] = 8042,
    browser: Annotated[
        bool, option("--browser/--no-browser", "Whether to open the page in a browser.")
    ] = True,
    json: options.Json = False,
) -> None:
    """Open a page that shows the runs of a results folder while they are written.

    It has the progress of every cell, all runs with their states, learning curves that grow,
    failures with their messages, videos, and comparisons of two runs. Only this machine can
    connect, nothing is loaded from elsewhere, and nothing is written into the folder. Ctrl-C ends
    it. The address, which has a secret, is printed on stdout.

    Example: imitbench dashboard --out runs --port 8042
    """
    from imitbench.dashboard.server import Dashboard, DashboardServer
    from imitbench.published.opening import ResultsLocation, results_location

    location = ResultsLocation.of(results_location(out))
    if location.board is not None:
        raise InputError(f"--out {out}: is a file; name a folder of results")
    with DashboardServer(Dashboard(location, note), port) as server:
        if json:
            print_json({"url": server.url, "folder": str(location.path)})
        else:
            typer.echo(server.url)

        def serve() -> None:
            note("Ctrl-C ends the dashboard")
            if browser and not open_browser(server.url):
                note("no browser found: open the address yourself")
            server.wait()

        if serve_until_stopped(serve):
            note("stopped")
