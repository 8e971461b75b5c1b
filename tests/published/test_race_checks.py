"""A published race follows its registered design, or the deviation is named."""

import json
import re
import shutil
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError

import pytest
from support.command import call_imitbench
from support.published import change, sign
from support.races import Training, carry_out, draw, planned, write_scored

from imitbench.errors import InputError
from imitbench.published.findings import StrictFindings
from imitbench.published.race_checks import compare_registered, published_designs
from imitbench.published.results_folder import export_results, races_of, read_runs
from imitbench.published.submission import read_submission, restore_runs
from imitbench.published.validation import validate
from imitbench.records.race_design import RaceDesign
from imitbench.store.races import RegisteredRace, read_races


def publish(out, folder, races=None):
    runs = read_runs(out).runs
    races = races_of(out, runs) if races is None else races
    export_results(runs, folder, version="0", command="imitbench results export", races=races)
    return folder


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    """A results folder with a race that ended after the second look, by two pairs."""
    out = tmp_path_factory.mktemp("raced")
    carry_out(planned(new=("gail", "sqil"), max_seeds=9), out)
    return out


@pytest.fixture
def out(raced, tmp_path):
    return Path(shutil.copytree(raced, tmp_path / "runs"))


def problems(folder):
    return [str(each) for each in validate(folder).of_check("races")]


def test_a_race_with_unequal_seeds_is_valid(out, tmp_path):
    found = validate(publish(out, tmp_path / "published"))
    assert {len(list((out / "classic" / algo).glob("*/*"))) for algo in ("gail", "bc")} == {6, 9}
    assert not [each for each in found.problems if each.check in ("races", "seeds", "files")]
    assert [race.design for race in found.submission.races] == [
        race.design for race in read_races(out)
    ]


def test_without_its_design_unequal_seeds_are_a_problem(out, tmp_path):
    found = validate(publish(out, tmp_path / "published", races=[]))
    assert found.of_check("seeds")


def test_a_race_that_went_on_after_its_decision_is_refused(out, tmp_path):
    plan = planned(new=("gail", "sqil"), max_seeds=9).plan
    train = Training(out)
    for spec in plan:
        if (spec.algo, spec.seed) in (("gail", 6), ("gail", 7)):
            train.write(plan, spec)
    [problem] = problems(publish(out, tmp_path / "published"))
    assert "gail on Pendulum-v1 went on after the decision with 6 seeds" in problem
    assert "seeds 6, 7" in problem


def test_a_race_that_stopped_before_a_decision_is_refused(out, tmp_path):
    for path in out.glob("classic/sqil/*/*/spec.json"):
        if json.loads(path.read_text())["seed"] == 8:
            shutil.rmtree(path.parent)
    [problem] = problems(publish(out, tmp_path / "published"))
    assert "sqil on Pendulum-v1 stopped before a decision: no run of seeds 8" in problem


def test_decisions_follow_from_the_episodes(tmp_path):
    """Episodes of a collapse of `gail` turned into successes: then nothing was decided."""
    out = tmp_path / "runs"
    carry_out(planned(), out)
    plan = planned().plan
    references = read_races(out)[0].design.references["Pendulum-v1"]
    for spec in plan:
        if spec.algo == "gail" and spec.seed < 6:
            at = read_races(out)[0].registered_at
            write_scored(out, spec, draw(spec, {"gail": 0.9}), references, at)
    found = problems(publish(out, tmp_path / "published"))
    assert any("gail on Pendulum-v1 stopped before a decision" in each for each in found)


def test_a_design_registered_after_its_runs_is_refused(out, tmp_path):
    [race] = read_races(out)
    later = race.model_copy(update={"registered_at": "2999-01-01T00:00:00.000+00:00"}).sealed()
    [problem] = problems(publish(out, tmp_path / "published", races=[later]))
    assert "ended before the design was registered" in problem


def test_a_design_changed_by_hand_is_refused(out, tmp_path):
    folder = publish(out, tmp_path / "published")
    [path] = folder.glob("races/*.json")
    change(folder, f"races/{path.name}", '"alpha": 0.05', '"alpha": 0.2')
    [problem] = problems(folder)
    assert "was changed after it was registered" in problem
    path.write_text("{}")
    sign(folder)
    [problem] = problems(folder)
    assert "not the design of a race" in problem


def test_another_design_for_the_same_runs_is_refused(out, tmp_path):
    [race] = read_races(out)
    design = race.design.model_copy(update={"batch": 4})
    other = RegisteredRace.model_validate({**race.model_dump(), "design": design}).sealed()
    assert problems(publish(out, tmp_path / "published", races=[other]))


def test_restored_results_have_the_design(out, tmp_path):
    submission = read_submission(publish(out, tmp_path / "published"), StrictFindings("x"))
    runs = [each.run for each in submission.runs]
    restored = tmp_path / "restored"
    made, present = restore_runs(runs, restored, submission.races)
    assert (made, present) == (len(runs), 0)
    assert read_races(restored) == read_races(out)
    assert restore_runs(runs, restored, submission.races) == (0, len(runs))


def test_another_design_of_the_same_methods_is_not_restored(out, tmp_path):
    submission = read_submission(publish(out, tmp_path / "published"), StrictFindings("x"))
    other = tmp_path / "other"
    carry_out(planned(new=("gail",), max_seeds=6), other)
    before = sorted(other.rglob("*"))
    with pytest.raises(InputError, match="has a race of gail against bc with another"):
        restore_runs([each.run for each in submission.runs], other, submission.races)
    assert sorted(other.rglob("*")) == before


def reseal(folder, **changes):
    """Changes the design of a published race and seals it again, as a cheat would."""
    [path] = folder.glob("races/*.json")
    race = RegisteredRace.model_validate_json(path.read_text())
    design = race.design.model_copy(
        update={name: value for name, value in changes.items() if name in RaceDesign.model_fields}
    )
    rest = {name: value for name, value in changes.items() if name not in RaceDesign.model_fields}
    race = race.model_copy(update={"design": design, **rest}).sealed()
    new = path.with_name(f"{race.id}.json")
    path.rename(new)
    new.write_text(race.text())
    manifest = json.loads((folder / "manifest.json").read_text())
    names = (path.relative_to(folder).as_posix(), new.relative_to(folder).as_posix())
    manifest["files"][names[1]] = manifest["files"].pop(names[0])
    (folder / "manifest.json").write_text(json.dumps(manifest))
    sign(folder)
    return folder


@pytest.mark.parametrize("time", ["", "yesterday", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"])
def test_a_registration_that_is_no_time_is_refused(out, tmp_path, time):
    [problem] = problems(reseal(publish(out, tmp_path / "published"), registered_at=time))
    assert f"registered_at {time!r} is not a time with a time zone" in problem


def test_a_design_registered_while_a_run_was_trained_is_refused(out, tmp_path):
    folder = publish(out, tmp_path / "published")
    path = folder / "runs/classic.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["result"]["started_at"] = "2020-01-01T00:00:00.000+00:00"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    sign(folder)
    [problem] = problems(folder)
    assert "started before the design was registered" in problem


def compared(folder, place):
    return [str(each) for each in compare_registered(validate(folder).submission.races, str(place))]


@pytest.fixture
def registry(out, tmp_path):
    """The design as it was published before the first run, in a folder of its own."""
    [race] = read_races(out)
    place = tmp_path / "registry"
    place.mkdir()
    (place / "gail-sqil.json").write_text(race.text())
    return place


@pytest.mark.parametrize("where", [".", "gail-sqil.json", "../runs", "../published"])
def test_a_design_is_found_where_it_was_published(out, tmp_path, registry, where):
    folder = publish(out, tmp_path / "published")
    assert compared(folder, registry / where) == [str(each) for each in validate(folder).problems]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"margin": 0.5}, "has another margin (0.05, not 0.5) than the design"),
        ({"registered_at": "2020-01-01T00:00:00+00:00"}, "was registered at '2020-01-01"),
        ({"suite": "another"}, "is not among the designs"),
    ],
)
def test_a_design_that_was_sealed_again_differs_from_the_first(
    out, tmp_path, registry, changes, told
):
    folder = reseal(publish(out, tmp_path / "published"), **changes)
    assert told in compared(folder, registry)[-1]


def test_a_submission_that_leaves_its_race_out_is_refused(out, tmp_path, registry):
    folder = publish(out, tmp_path / "published", races=[])
    assert "has no race" in compared(folder, registry)[-1]


@pytest.fixture
def served(registry):
    """Address of the registry on the loopback interface; other paths answer hostile things."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(registry))

        def do_GET(self):
            where = {"/file": "file:///etc/passwd", "/loop": "/loop", "/ftp": "ftp://x/y"}
            if self.path not in where:
                return super().do_GET()
            self.send_response(302)
            self.send_header("Location", where[self.path])
            return self.end_headers()

        def log_message(self, *_args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_design_is_read_from_its_address(out, tmp_path, served):
    folder = publish(out, tmp_path / "published")
    assert compared(folder, f"{served}/gail-sqil.json") == compared(folder, out)
    folder = reseal(folder, margin=0.5)
    answer = call_imitbench(
        "leaderboard", "validate", folder, "--registered", f"{served}/gail-sqil.json", cwd=tmp_path
    )
    assert answer.code == 1
    assert f"another margin (0.05, not 0.5) than the design at {served}" in answer.out


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("{url}/file", "the server answers 302"),
        ("{url}/ftp", "cannot be read (unknown url type: ftp)"),
        ("{url}/loop", "the server answers 302"),
        ("{url}/missing.json", "the server answers 404"),
        ("{url}/big.json", "IMITBENCH_LIMIT_TEXT_BYTES"),
        ("{url}/other.json", "not the design of a race"),
        ("http://127.0.0.1:1/x", "Connection refused"),
        ("http://[", "cannot be read (Invalid IPv6 URL"),
        ("http://a b/", "cannot be read"),
        ("http://", "cannot be read"),
        ("missing", "no such file or folder"),
        ("empty", "has no design of a race"),
    ],
)
def test_a_place_without_designs_is_one_line(
    out, tmp_path, registry, served, monkeypatch, place, told
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "empty").mkdir()
    (registry / "big.json").write_bytes(bytes(2**22 + 1))
    (registry / "other.json").write_text("{}")
    with pytest.raises(InputError, match=re.escape(told)) as caught:
        published_designs(place.format(url=served))
    assert "\n" not in str(caught.value)
    if isinstance(cause := caught.value.__cause__, HTTPError):
        assert cause.fp.isclosed()


def test_a_race_of_both_ways_is_replayed_from_both_kinds_of_episodes(tmp_path):
    out = tmp_path / "runs"
    carry_out(planned(acting="both"), out)
    assert problems(publish(out, tmp_path / "published")) == []
    [race] = read_races(out)
    scale = race.design.references["Pendulum-v1"]
    other = scale.model_copy(update={"expert_likely": scale.expert_likely + 50})
    design = race.design.model_copy(update={"references": {"Pendulum-v1": other}})
    moved = RegisteredRace.model_validate({**race.model_dump(), "design": design}).sealed()
    [problem] = problems(publish(out, tmp_path / "moved", races=[moved]))
    assert "Pendulum-v1: expert_likely" in problem
    assert "; the card says" in problem


def test_most_likely_actions_that_say_nothing_leave_a_published_race_open(tmp_path):
    out = tmp_path / "runs"
    carry_out(planned(acting="both"), out)
    references = read_races(out)[0].design.references["Pendulum-v1"]
    for spec in planned(acting="both").plan:
        if spec.algo == "gail" and spec.seed < 6:
            at = read_races(out)[0].registered_at
            scores = draw(spec), draw(spec, {"gail": 0.9})
            write_scored(out, spec, scores, references, at)
    found = problems(publish(out, tmp_path / "published"))
    assert any("gail on Pendulum-v1 stopped before a decision" in each for each in found)
