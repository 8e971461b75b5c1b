"""Published results, and edits of them."""

import json

from imitbench.published.results_folder import export_results, read_runs, text_digest
from imitbench.records.runs import canonical_digest


def publish(out, folder):
    """Writes the runs of a results folder as `imitbench results push` does."""
    export_results(read_runs(out).runs, folder, version="0.1.0", command="imitbench results push")
    return folder


def sign(folder):
    """Updates the manifest to its files, as after a deliberate edit."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"] = {
        name: text_digest((folder / name).read_text()) if (folder / name).is_file() else digest
        for name, digest in manifest["files"].items()
    }
    manifest["digest"] = canonical_digest(
        {key: value for key, value in manifest.items() if key != "digest"}
    )
    path.write_text(json.dumps(manifest))


def change(folder, name, old, new, *, signed=True):
    """Changes a file; with `signed`, the manifest is updated."""
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    if signed:
        sign(folder)


def edit_line(folder, name, number, edit):
    """Changes a line of a file of runs with `edit(document)`, and updates the manifest."""
    lines = (folder / name).read_text().splitlines()
    document = json.loads(lines[number])
    edit(document)
    lines[number] = json.dumps(document)
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    sign(folder)
