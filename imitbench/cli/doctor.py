"""`imitbench doctor`: checks that the installation has everything that runs need."""

from __future__ import annotations

import typer

from imitbench.cli import options
from imitbench.cli.output import print_json, print_text


def doctor(out: options.Out = options.DEFAULT_OUT, json: options.Json = False) -> None:
    """Check the installation, and print a fix for each problem. Exits with 1 if there is a problem.

    Example: imitbench doctor
    """
    from imitbench.bench.installation import check_installation

    findings = check_installation(out)
    if json:
        print_json([vars(finding) for finding in findings])
    else:
        for finding in findings:
            mark = "ok     " if finding.ok else "PROBLEM"
            color = "green" if finding.ok else "bold red"
            print_text(f"{mark}  {finding.what}: {finding.detail}", indent=9, color=color)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)
