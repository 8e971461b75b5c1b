"""The page of claims stands on the board where the results have a table of claims."""

import csv
import shutil
from pathlib import Path

import pytest
from support.boards import Links
from typer.testing import CliRunner

from imitbench.cli.main import app

RESULTS = Path(__file__).resolve().parents[2] / "results"
EVIL = "<b>evil | paper"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Published runs with a claim that they reproduce, and one of another task."""
    folder = tmp_path_factory.mktemp("claims")
    shutil.copytree(RESULTS / "imitbench-classic-full", folder / "imitbench-classic-full")
    claim = {
        "paper": EVIL, "year": "2020", "figure": "Table 1", "url": "https://example.org/a",
        "task": "seals/CartPole-v1", "expert_return": "500", "claimed_return": "500",
        "point": "last", "algo": "bc", "suite": "classic", "env": "seals/CartPole-v0",
        "budget": "full", "n_demos": "all", "config": "default",
    }  # fmt: skip
    with (folder / "claims.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*claim])
        writer.writeheader()
        writer.writerows([claim, {**claim, "task": "CartPole-v1"}])
    return folder


@pytest.fixture(scope="module")
def site(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    words = ["leaderboard", "build", "--results", str(results), "--out", str(folder)]
    CliRunner().invoke(app, [*words, "--replicates", "100", "-q"], catch_exceptions=False)
    return folder


def test_the_page_has_a_verdict_for_each_claim_and_links_to_its_source(site):
    page = Links((site / "claims.html").read_text())
    said = "".join(page.text)
    assert "2 claims from 1 source: 1 reproduced, 1 not comparable." in said
    assert f"{EVIL} 2020, Table 1" in said
    assert page.tags["b"] == 0
    assert page.targets.count("https://example.org/a") == 2


def test_all_pages_of_the_board_lead_to_it(site):
    for name in ("index.html", "submit.html"):
        assert 'href="claims.html"' in (site / name).read_text()


def test_a_board_without_claims_has_no_such_page(results, tmp_path):
    words = ["leaderboard", "build", "--results", str(results / "imitbench-classic-full")]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "site"), "--replicates", "100"])
    assert done.exit_code == 0
    assert not (tmp_path / "site" / "claims.html").exists()
    assert "claims.html" not in (tmp_path / "site" / "index.html").read_text()
