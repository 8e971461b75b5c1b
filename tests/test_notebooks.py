"""The notebooks of the documentation run from top to bottom, and are stored without outputs.

The numbers that determine the run time are constants in the first code cell; the test replaces
them with smaller ones.
"""

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# Replaces each constant of a notebook.
SMALL = {
    "first_tutorial": {
        "BC_EPOCHS": "1",
        "GAIL_STEPS": "1_024",
        "EPISODES": "1",
        "SEEDS": "2",
        "BUDGET": '"quick"',
    }
}
CONSTANT = re.compile(r"^([A-Z_]+) = ([^#\n]+?)(?=  #|$)", re.MULTILINE)


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param


def cells_of(path, kind):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == kind]


def test_a_notebook_is_stored_without_outputs(notebook):
    for cell in cells_of(notebook, "code"):
        assert (cell["outputs"], cell["execution_count"]) == ([], None)


def test_the_constants_of_a_notebook_are_in_its_first_code_cell(notebook):
    first, *others = ("".join(cell["source"]) for cell in cells_of(notebook, "code"))
    assert {name for name, _ in CONSTANT.findall(first)} == set(SMALL[notebook.stem])
    assert not any(CONSTANT.findall(cell) for cell in others)


def test_links_lead_to_files_that_exist(notebook):
    text = "".join(line for cell in cells_of(notebook, "markdown") for line in cell["source"])
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert targets
    assert [target for target in targets if not (FOLDER / target).is_file()] == []


@pytest.mark.slow
def test_a_notebook_runs(notebook, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is missing: pip install '.[test]'")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    read = nbformat.read(notebook, as_version=4)
    nbformat.validate(read)
    first = next(cell for cell in read.cells if cell.cell_type == "code")
    first.source = CONSTANT.sub(
        lambda found: f"{found[1]} = {SMALL[notebook.stem][found[1]]}", first.source
    )
    folder = tmp_path / "work"
    folder.mkdir()
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(
        read, timeout=None, kernel_name="python3", resources=resources
    ).execute()
    shown = [output for cell in read.cells for output in cell.get("outputs", [])]
    assert any("text/html" in output.get("data", {}) for output in shown)
    assert len(list(folder.glob("runs/**/result.json"))) == 4
