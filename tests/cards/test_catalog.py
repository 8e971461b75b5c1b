"""A bundled card that is loaded again is another copy, of the file as it is now."""

import shutil

from imitbench.cards import catalog


def test_a_card_is_a_copy_of_the_file_as_it_is(tmp_path, monkeypatch):
    folder = shutil.copytree(catalog.algorithm_directory("bc"), tmp_path / "algorithms" / "bc")
    monkeypatch.setattr(catalog, "_root", lambda kind: tmp_path / kind)
    first = catalog.load_algorithm("bc")
    expected = dict(first.hyperparameters)
    first.hyperparameters.clear()
    again = catalog.load_algorithm("bc")
    assert again.hyperparameters == expected
    assert again.origin.folder == folder
    path = folder / "card.yaml"
    path.write_text(path.read_text().replace(f"title: {again.title}", "title: Another"))
    assert catalog.load_algorithm("bc").title == "Another"
