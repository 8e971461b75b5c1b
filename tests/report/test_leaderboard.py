"""The leaderboard's files: their content, their links, and what they replace."""

import csv
import dataclasses
import io
import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest
from support.boards import Links, build, shown_rows
from support.pages import write_rewards
from support.published import publish
from support.shown_results import SKILLS, write_results
from support.submissions import write_submitted_runs

from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.errors import InputError
from imitbench.published.results_sources import find_results
from imitbench.report import markdown
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.data_formats import COLUMNS
from imitbench.report.leaderboard.model import slug
from imitbench.report.leaderboard.site import write_site
from imitbench.report.text import score
from imitbench.stats.coverage import FailurePolicy
from imitbench.store.external_results import ExternalRun, ImportedResults, write_external

ODD = "<img src=x onerror=boom()>|$_{}\\&amp;"
EVIL = "<b>evil | co"
PAPERS = {card.paper.url for card in map(load_algorithm, algorithm_names()) if card.paper}


def import_results(out, name="paper", **changes):
    runs = [
        ExternalRun(
            **{
                "place": f"{algo}/{env}/{seed}", "status": "completed", "algo": algo, "env": env,
                "raw_return": raw, "score": score, "seed": seed, "suite": "classic", **changes,
            }
        )
        for algo, env, raw, score in (
            ("bc", "Pendulum-v1", -150.0, 1.5), ("gail", "seals/CartPole-v0", 490.0, 0.98),
        )
        for seed in range(3)
    ]  # fmt: skip
    write_external(ImportedResults("csv", "table.csv", {}, runs), out, name, version="0.1.0")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A results folder of own runs, in which an algorithm and a message are like markup."""
    out = tmp_path_factory.mktemp("own") / "runs"
    skills = {**SKILLS, ODD: ((0.5, 0.1), (0.5, 0.1), (0.5, 0.1))}
    failing = (("gail", "Pendulum-v1", 2), *((ODD, "Pendulum-v1", seed) for seed in range(3)))
    write_results(out, seeds=3, skills=skills, failing=failing, message=ODD, version="1")
    return out


@pytest.fixture(scope="module")
def submissions(tmp_path_factory, runs):
    """Two submissions that have algorithms in common, and one of them an odd name."""
    folder = tmp_path_factory.mktemp("results")
    publish(runs, folder / EVIL)
    own = tmp_path_factory.mktemp("theirs")
    write_submitted_runs(own / "runs", env=None, n_demos=10)
    write_rewards(own / "runs", ("gail",), elsewhere=())
    publish(own / "runs", folder / "theirs")
    import_results(folder)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory, submissions):
    folder = tmp_path_factory.mktemp("site") / "site"
    build(submissions, folder, external=True)
    return folder


def files(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes()
            for p in folder.rglob("*") if p.is_file()}  # fmt: skip


def document(site):
    return json.loads((site / "leaderboard.json").read_text())


@pytest.fixture(scope="module")
def parsed(site):
    return {path: Links(path.read_text()) for path in site.rglob("*.html")}


def test_every_link_has_a_target(site, parsed):
    assert len(parsed) > 10
    seen = 0
    for path, page in parsed.items():
        assert len(page.ids) == len(set(page.ids)), path
        for target in page.targets:
            if target.startswith("https://"):
                continue  # a paper
            place, _, fragment = target.partition("#")
            there = (path.parent / unquote(place)).resolve() if place else path
            assert there.is_file(), (path, target)
            assert site in there.parents
            if fragment and "=" not in fragment:  # views are tested with the page of comparisons
                assert fragment in parsed[there].ids, (path, target)
            seen += 1
    assert seen > 200


def test_pages_load_nothing_and_their_policy_admits_nothing_else(parsed):
    for path, page in parsed.items():
        text = path.read_text()
        [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
        assert policy.startswith("default-src &#x27;none&#x27;; style-src &#x27;sha256-")
        assert "src" not in page.attributes
        assert page.tags["link"] == 1  # an empty icon, so that none is requested
        elsewhere = {target for target in page.targets if "//" in target or target[0] == "/"}
        assert elsewhere <= PAPERS


def test_every_number_of_a_row_links_to_its_runs(site, parsed):
    bc = next(row for table in document(site)["tables"] for row in table["rows"]
              if row["algorithm"] == "bc" and row["kind"] == "run")  # fmt: skip
    page, anchor = bc["page"].split("#")
    suite = parsed[site / "suites/classic.html"]
    assert sum(target.startswith(f"../{page}#{anchor}") for target in suite.targets) >= 6
    index = parsed[site / "index.html"]
    assert f"{page}#{anchor}" in index.targets
    text = " ".join(parsed[site / page].text)
    for run in bc["runs"]:
        assert run["run_id"] in text
        assert run["spec_digest"] in text
        assert f"{run['raw_return']:.2f}" in text
        table = (site / run["episodes"]).read_text()
        values = [float(row["raw_return"]) for row in csv.DictReader(io.StringIO(table))
                  if row["deterministic"] == "false"]  # fmt: skip
        assert sum(values) / len(values) == pytest.approx(run["raw_return"], rel=1e-12)


def test_untrusted_names_stay_text(site, parsed):
    for path, page in parsed.items():
        assert not page.tags["img"] + page.tags["b"], path
        compares = path.parent.name == "head-to-head"  # its data are a script that is not executed
        assert page.tags["script"] == 1 + compares, path
        assert not any(name.startswith("on") for name in page.attributes)
    index = "".join(parsed[site / "index.html"].text)
    assert ODD in index
    assert EVIL in index
    pages = [page for path, page in parsed.items() if ODD in "".join(page.text)]
    assert any(EVIL in "".join(page.text) for page in pages)
    names = [path.relative_to(site).as_posix() for path in site.rglob("*")]
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-./") for name in names)


def test_the_same_results_give_the_same_bytes(tmp_path, submissions, site):
    shutil.copytree(submissions, tmp_path / "moved")
    build(tmp_path / "moved", tmp_path / "site", external=True)
    assert files(tmp_path / "site") == files(site)
    everything = b"".join(files(site).values())
    assert b"secret-host" not in everything
    assert str(submissions).encode() not in everything


def test_own_runs_and_the_same_ones_published_give_the_same_numbers(tmp_path, runs):
    build(runs, tmp_path / "own")
    publish(runs, tmp_path / "submission")
    build(tmp_path / "submission", tmp_path / "published")
    one, other = (document(tmp_path / name)["tables"] for name in ("own", "published"))
    for table, twin in zip(one, other, strict=True):
        for row, same in zip(table["rows"], twin["rows"], strict=True):
            apart = {"submitted_by", "runs", "failures", "checked", "rank", "place"}
            assert {**row, **dict.fromkeys(apart)} == {**same, **dict.fromkeys(apart)}


def test_ranks_are_by_iqm_among_what_covers_every_environment(site):
    for table in document(site)["tables"]:
        rows = table["rows"]
        ranked = [row for row in rows if row["rank"] is not None]
        assert [row["rank"] for row in ranked] == list(range(1, len(ranked) + 1))
        scores = [row["score_iqm"] for row in ranked]
        assert scores == sorted(scores, reverse=True)
        for row in rows:
            complete = row["environments_covered"] == row["environments_total"]
            own = row["kind"] == "run" and row["algorithm"] not in ("random", "expert")
            due = own and complete and row["checked"]
            assert (row["rank"] is not None) == due, row["algorithm"]
        assert rows[: len(ranked)] == ranked


def test_the_first_page_has_each_method_once_in_each_condition(site):
    [shown] = shown_rows(site).values()
    rows = [row for table in document(site)["tables"] for row in table["rows"]]
    methods = {row["algorithm"] for row in rows if row["kind"] in ("run", "reference")}
    external = {f"paper: {row['algorithm']}" for row in rows if row["kind"] == "external"}
    names = [name for _, name, _ in shown]
    assert sorted(names) == sorted(methods | external)
    scores = {name: value for _, name, value in shown}
    for name in methods:
        ranked = [row for row in rows if row["algorithm"] == name and row["rank"] is not None]
        if ranked:
            best = max(ranked, key=lambda row: row["score_iqm"])
            for end, column in (("point", "score_iqm"), ("low", "score_iqm_low")):
                assert scores[name][end] == best[column]
    assert {name for group, name, _ in shown if group == "external"} == external
    assert all(scores[name]["tier"] is None for name in external)


def scored(part, name):
    [row] = [row for row in part.rows if row.name == name]
    return row.result.iqm.point


def test_a_method_that_is_given_ranks_has_a_track_of_its_own(tmp_path):
    write_results(tmp_path / "runs", seeds=1, skills={"bc": ((0.5, 0.01),) * 3}, failing=())
    [part] = build(tmp_path / "runs", tmp_path / "site").sections
    [row] = [row for row in part.rows if row.name == "bc"]

    def track(algo):
        implementation = load_algorithm(algo).implementation
        spec = row.specs[0].model_copy(update={"algo": algo, "implementation": implementation})
        run = dataclasses.replace(row.runs[0], run=dataclasses.replace(row.runs[0].run, spec=spec))
        return dataclasses.replace(row, runs=(run,)).track

    assert track("trex") == "given ranks"
    assert track("drex") == "offline"  # by the budget of these runs; it makes its ranks itself


def test_methods_that_cannot_be_told_apart_share_a_tier_of_their_track(tmp_path):
    good, bad = ((0.95, 0.01),) * 3, ((0.2, 0.01),) * 3
    skills = {"bc": bad, "dagger": good, "sqil": good, "gail": bad}
    write_results(tmp_path / "runs", seeds=10, skills=skills, failing=())
    write_results(tmp_path / "runs", seeds=9, skills={"airl": good}, failing=())
    board = build(tmp_path / "runs", tmp_path / "site")
    [part] = board.sections
    found = {row.name: (row.track, row.tier) for row in part.rows}
    assert found == {
        "bc": ("offline", 1),  # nobody ranks it with the others
        "dagger": ("on-policy", 1),
        "sqil": ("on-policy", 1),
        "gail": ("on-policy", 2),
        "airl": ("on-policy", None),
        **dict.fromkeys(("expert", "random"), ("", None)),
    }
    assert [row.name for row in part.rows if row.rank and row.provisional] == ["airl"]
    page = " ".join((tmp_path / "site" / "suites" / "classic.html").read_text().split())
    cells = re.findall(r">(\d|provisional)(?:</span>)?<span class=.?how.?>on-policy</span>", page)
    assert sorted(cells) == ["1", "1", "2", "provisional"]
    [shown] = shown_rows(tmp_path / "site").values()
    assert [name for group, name, _ in shown if group == "on-policy"] == [
        *sorted(("dagger", "sqil"), key=lambda name: -scored(part, name)), "gail", "airl",
    ]  # fmt: skip
    facts = " ".join(Links((tmp_path / "site" / "index.html").read_text()).text)
    assert "5  algorithm" in facts


def test_a_method_page_has_its_paper_and_a_command(site, parsed):
    text = "".join(parsed[site / "methods/gail.html"].text)
    assert "@misc{ho2016generative," in text
    assert "author = {Jonathan Ho and Stefano Ermon}" in text
    assert "imitbench run --algo gail --suite classic --budget quick --n-demos 10" in text


def test_an_environment_with_only_failed_runs_counts_as_random(tmp_path, runs):
    policies, found = [], []
    for policy in (FailurePolicy.COUNT_AS_RANDOM, FailurePolicy.EXCLUDE):
        build(runs, tmp_path / "site", failed_runs=policy)
        made = document(tmp_path / "site")
        policies.append(made["method"]["failed_runs"])
        [odd] = [r for table in made["tables"] for r in table["rows"] if r["algorithm"] == ODD]
        found.append((odd["rank"] is None, odd["failed"], odd["environments_covered"]))
    assert policies == ["count-as-random", "exclude"]
    assert found == [(False, 3, 3), (True, 3, 2)]


def test_one_algorithm_of_two_submitters_is_two_rows(site):
    [table] = document(site)["tables"]
    rows = [row for row in table["rows"] if row["kind"] == "run"]
    found = [(row["algorithm"], row["submitted_by"]) for row in rows]
    assert {("bc", "theirs"), ("bc", EVIL), ("gail", "theirs"), ("gail", EVIL)} < set(found)
    assert len(found) == len(set(found))
    assert len({row["page"] for row in rows}) == len(rows)


def test_external_results_are_shown_on_request_only_and_change_no_other_number(
    tmp_path, submissions, site
):
    build(submissions, tmp_path / "site")
    without, with_ = document(tmp_path / "site"), document(site)
    shown = [row for table in with_["tables"] for row in table["rows"]]
    external = [row for row in shown if row["kind"] == "external"]
    assert {row["algorithm"] for row in external} == {"bc", "gail"}
    assert all(row["rank"] is None for row in external)
    assert all(row["submitted_by"] == "paper (csv: table.csv)" for row in external)
    bc = next(row for row in external if row["algorithm"] == "bc")
    assert (bc["score_mean"], bc["environments_covered"]) == (1.5, 1)
    assert bc["environments_total"] == 3
    assert len(bc["runs"]) == 3
    others = [row for row in shown if row["kind"] != "external"]
    assert others == [row for table in without["tables"] for row in table["rows"]]
    assert "external" not in {path.name for path in (tmp_path / "site").iterdir()}
    index = (site / "index.html").read_text()
    assert '<span class="mark">external</span>' in index


def test_external_results_of_other_demonstrations_or_suites_stay_out(tmp_path, runs):
    out = tmp_path / "runs"
    shutil.copytree(runs, out)
    import_results(out, "few", n_demos=3)
    import_results(out, "elsewhere", suite="mujoco")
    import_results(out, "raw", score=None)
    board = build(out, tmp_path / "site", external=True)
    labels = {row.imported.label for part in board.sections for row in part.rows if row.imported}
    assert labels == {"raw"}
    raw = next(row for part in board.sections for row in part.rows if row.imported)
    assert raw.result.iqm is None
    assert raw.result.cells[0].raw_mean == -150.0
    page = (tmp_path / "site" / raw.page).read_text()
    assert "-150.00" in page
    assert not re.search(r"\bnan\b", " ".join(Links(page).text))


def test_the_csv_table_has_a_line_per_row(site):
    text = (site / "leaderboard.csv").read_text()
    lines = list(csv.DictReader(io.StringIO(text)))
    assert tuple(lines[0]) == COLUMNS
    rows = [(table, row) for table in document(site)["tables"] for row in table["rows"]]
    assert len(lines) == len(rows)
    for line, (table, row) in zip(lines, rows, strict=True):
        assert (line["suite"], line["algorithm"]) == (table["suite"], row["algorithm"])
        for name in ("score_iqm", "score_mean_low"):
            shown = None if line[name] == "" else float(line[name])
            assert shown == (None if row[name] is None else pytest.approx(row[name], rel=1e-9))


def test_the_columns_are_those_in_the_documents():
    told = Path(__file__).resolve().parents[2].joinpath("docs/leaderboard.md").read_text()
    table = told.partition("| column |")[2].partition("\n\n")[0]
    columns = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert tuple(re.findall(r"`(\w+)`", " ".join(columns))) == COLUMNS


def as_outside_method(run, isolation):
    """Returns a run of gail as one of a method that does not ship with this package."""
    if run.spec.algo != "gail":
        return run
    changed = {}
    for name in ("result", "failure"):
        outcome = getattr(run, name)
        if outcome is not None:
            came = outcome.provenance.model_copy(update={"isolation": isolation})
            changed[name] = outcome.model_copy(update={"provenance": came})
    spec = run.spec.model_copy(update={"implementation_digest": "0" * 64})
    return dataclasses.replace(run, spec=spec, **changed)


@pytest.mark.parametrize(
    ("isolation", "isolated"),
    [("checked", True), ("unchecked", False), ("tested", False), (None, None)],
)
def test_methods_from_outside_are_isolated_or_not(isolation, isolated, runs, tmp_path):
    found = find_results(runs)
    [source] = found.sources
    changed = [as_outside_method(run, isolation) for run in source.runs]
    found = dataclasses.replace(found, sources=[dataclasses.replace(source, runs=changed)])
    board = build_board(found, title="Board", replicates=10)
    write_site(board, tmp_path / "site", results=[runs])
    shown = {
        (row["algorithm"], row["isolated"], *(run["isolated"] for run in row["runs"]))
        for table in document(tmp_path / "site")["tables"]
        for row in table["rows"]
        if row["algorithm"] == "gail"
    }
    assert {value for each in shown for value in each[1:]} == {isolated}
    [row] = [row for part in board.sections for row in part.rows if row.name == "gail"]
    page = (tmp_path / "site" / row.page).read_text()
    assert (">not isolated<" in page) == (isolated is False)
    assert (">isolated<" in page) == (isolated is True)
    written = (tmp_path / "site" / "leaderboard.md").read_text()
    assert ("gail (not isolated)" in written) == (isolated is False)


def test_the_detected_kind_of_a_folder_is_stated(tmp_path, submissions, runs):
    assert find_results(submissions).kind == "2 submissions"
    assert find_results(submissions / "theirs").kind == "published results"
    assert find_results(runs).kind == "a results folder of own runs"
    with pytest.raises(InputError, match="holds neither published results"):
        find_results(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        find_results(tmp_path / "missing")


def test_the_same_submission_twice_counts_once(tmp_path, submissions):
    for name in ("a", "b"):
        shutil.copytree(submissions / "theirs", tmp_path / name)
    found = find_results(tmp_path)
    assert [source.name for source in found.sources] == ["a"]
    assert found.notes == ("skipped: b: the same results as a",)


def test_a_damaged_submission_is_not_ignored(tmp_path, submissions):
    shutil.copytree(submissions / "theirs", tmp_path / "a")
    path = tmp_path / "a" / "runs" / "classic.jsonl"
    path.write_text(path.read_text().replace('"seed":0', '"seed":5', 1))
    with pytest.raises(InputError, match="does not have the digest in the manifest"):
        find_results(tmp_path)


def test_the_board_marks_submissions_that_differ_from_the_cards(site, parsed, submissions):
    failed = {each["name"]: each["failed_checks"] for each in document(site)["submissions"]}
    assert failed["theirs"] == []
    assert {"suite", "budget", "algorithm"} <= set(failed[EVIL])
    for row in (row for table in document(site)["tables"] for row in table["rows"]):
        assert row["checked"] == (EVIL not in row["submitted_by"])
        assert row["checked"] or row["rank"] is None
    told = [line for line in (site / "leaderboard.md").read_text().splitlines() if "| bc" in line]
    theirs, evil = (
        [line for line in told if who in line] for who in ("theirs", markdown.escape(EVIL))
    )
    # Overall, by environment, and by the most likely actions: one row each, with distinct names.
    assert (len(theirs), len(evil)) == (3, 3)
    assert all("bc (checks failed)" in line for line in evil)
    assert not any("checks failed" in line for line in theirs)
    text = " ".join(parsed[site / "index.html"].text)
    assert "checks failed" in text
    assert "fails values, suite, budget, algorithm" in text
    assert any("does not pass the checks" in note for note in find_results(submissions).notes)


def test_an_algorithm_with_only_the_name_of_an_anchor_is_not_an_anchor(tmp_path):
    write_results(tmp_path / "runs", seeds=2, failing=(),
                  skills={"random": ((2.0, 0.1),) * 3, "bc": ((0.5, 0.1),) * 3})  # fmt: skip
    board = build(tmp_path / "runs", tmp_path / "site")
    [part] = board.sections
    first = part.rows[0]
    assert (first.rank, first.name, first.kind) == (1, "random", "run")
    [anchor] = [row for row in part.rows if row.result.algorithm == "random"]
    assert anchor.kind == "reference"


def test_controls_of_two_submitters_are_ranked_no_more_than_those_of_one(tmp_path):
    for seeds, (name, budget) in enumerate(
        (("one", "quick"), ("two", "default"), ("three", "default")), start=1
    ):
        write_submitted_runs(
            tmp_path / name, ["bc", "zero_reward"], seeds=seeds, failing=(), budget=budget
        )
        publish(tmp_path / name, tmp_path / "results" / name)
    board = build(tmp_path / "results", tmp_path / "site")
    shown = [[(row.name, row.rank, row.result.role) for row in part.rows
              if row.name not in ("random", "expert")] for part in board.sections]  # fmt: skip
    control = ("zero_reward", None, "control")
    assert shown == [
        [("bc", 1, "method"), ("bc", 2, "method"), control, control],
        [("bc", 1, "method"), control],
    ]


def test_an_earlier_site_is_replaced_and_nothing_else(tmp_path, runs):
    site = tmp_path / "site"
    site.mkdir()
    build(runs, site)
    before = files(site)
    (site / "algorithms" / "old.html").write_text("old")
    build(runs, site)
    assert files(site) == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    (site / "CNAME").write_text("example.org")
    with pytest.raises(InputError, match="holds CNAME"):
        build(runs, site)
    (site / "CNAME").unlink()
    (site / "leaderboard.json").write_text('{"format": "other"}')
    with pytest.raises(InputError, match="is not empty, and not a leaderboard"):
        build(runs, site)
    (site / "leaderboard.json").unlink()
    with pytest.raises(InputError, match="is not empty, and not a leaderboard"):
        build(runs, site)
    assert set(files(site)) == set(before) - {"leaderboard.json"}


def test_results_are_never_overwritten(tmp_path, runs):
    shutil.copytree(runs, tmp_path / "site" / "runs")
    for site in (tmp_path / "site", tmp_path / "site" / "runs"):
        with pytest.raises(InputError, match="contains the results"):
            build(tmp_path / "site" / "runs", site)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError):
        build(runs, tmp_path / "file")


def test_a_site_that_cannot_be_finished_leaves_the_earlier_one(tmp_path, runs, monkeypatch):
    build(runs, tmp_path / "site")
    before = files(tmp_path / "site")

    def fails(board):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("imitbench.report.leaderboard.site.render_csv", fails)
    with pytest.raises(InputError, match="No space left"):
        build(runs, tmp_path / "site")
    assert files(tmp_path / "site") == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_names_of_files_are_different_for_different_names():
    names = ["bc", "BC", "b c", "b-c", "<b>c", "é", "..", "", "a" * 100, "bc-12345678", "bc."]
    slugs = [slug(name) for name in names]
    assert slugs[0] == "bc"
    assert len({each.lower() for each in slugs}) == len(names)
    assert all(each and not each.startswith(".") and len(each) <= 60 for each in slugs)


def test_an_empty_board_says_so(tmp_path):
    out = tmp_path / "runs"
    write_submitted_runs(out, algorithms=["bc"], seeds=1, failing=())
    for path in out.rglob("result.json"):
        path.unlink()
    build(out, tmp_path / "site")
    assert "No results" in (tmp_path / "site" / "index.html").read_text()


def test_the_markdown_has_every_row_and_cell_and_escapes_names(site):
    text = (site / "leaderboard.md").read_text(encoding="utf-8")
    document = json.loads((site / "leaderboard.json").read_text())
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    following = iter(tables)
    for said in document["tables"]:
        overall, single, quiet = (next(following) for _ in range(3))
        for part in filter(None, (said["reward_summaries"], said["reward_board"])):
            assert len(next(following)) == 2 + len(part)
        assert len(overall) == len(single) == 2 + len(said["rows"])
        for row, line, cells in zip(said["rows"], overall[2:], single[2:], strict=True):
            assert row["score_iqm"] is None or score(row["score_iqm"]) in line
            for cell in row["cells"]:
                if cell["score_mean"] is not None:
                    assert f"({score(cell['score_mean'])})" in cells
                noiseless = cell["score_deterministic_mean"]
                if noiseless is not None and row["kind"] == "run":
                    assert any(score(noiseless) in each for each in quiet[2:])
    assert next(following, None) is None
    assert "<img" not in text
    assert "<b>" not in text


def test_imported_means_have_neither_seeds_nor_intervals(tmp_path, runs):
    shutil.copytree(runs, tmp_path / "runs")
    rows = [
        ExternalRun(place=env, status="completed", algo="paper", env=env, score=0.5)
        for env in ("Pendulum-v1", "seals/CartPole-v0")
    ]
    write_external(
        ImportedResults("csv", "t.csv", {}, rows), tmp_path / "runs", "means", version="0.1.0"
    )
    build(tmp_path / "runs", tmp_path / "site", external=True)
    lines = (tmp_path / "site" / "leaderboard.md").read_text().splitlines()
    [shown, *_] = [line for line in lines if line.startswith(("|  | paper", "| paper"))]
    assert "| 0.500 | 0.500 on Pendulum-v1 | 0.500 |" in shown
    assert "| not stated |" in shown


def test_a_method_page_has_failures_limits_and_the_seeds_of_its_commands(site):
    page = (site / "methods/gail.html").read_text()
    assert "Results differ much between seeds" in page
    assert 'id="failures"' in page
    assert "FloatingPointError" in page
    assert (
        "imitbench run --algo gail --suite classic --budget quick --n-demos 10 --seeds 0-2" in page
    )
    assert "tuned values exist for" in page
