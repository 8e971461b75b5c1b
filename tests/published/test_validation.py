"""A submission is valid, or every check that it fails is named with what is wrong and where."""

import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest
from support.command import call_imitbench
from support.published import change, edit_line, publish, sign
from support.runs import make_spec
from support.submissions import write_submitted_runs

from imitbench.cards.catalog import load_suite
from imitbench.errors import InputError
from imitbench.published.findings import CHECKS, MEANINGS, Findings
from imitbench.published.submission import LocatedRun
from imitbench.published.validation import check_seeds, validate
from imitbench.records.published import PublishedRun
from imitbench.records.runs import Budget, RunSpec

RUNS, FAILURES = "runs/classic.jsonl", "failures/classic.jsonl"
BC, GAIL = 0, 3  # lines: three runs of bc, two of gail, three of random


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    write_submitted_runs(folder / "runs")
    return publish(folder / "runs", folder / "submission")


@pytest.fixture
def submission(published, tmp_path):
    """A separate copy of a valid submission."""
    return Path(shutil.copytree(published, tmp_path / "submission"))


def respecify(folder, number, **changes):
    """Changes a specification and everything that is named after its digest, and signs."""
    lines = (folder / RUNS).read_text().splitlines()
    document = json.loads(lines[number])
    old = document["run_id"]
    document["spec"] = {**document["spec"], **changes}
    spec = RunSpec.model_validate_json(json.dumps(document["spec"]))
    document |= {"run_id": spec.run_id, "spec_digest": spec.digest}
    lines[number] = json.dumps(document)
    (folder / RUNS).write_text("".join(f"{line}\n" for line in lines))
    rename(folder, f"episodes/classic/{old}.csv", f"episodes/classic/{spec.run_id}.csv")


def rename(folder, old, new):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][new] = manifest["files"].pop(old)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / old).rename(folder / new)
    sign(folder)


def set_result(number, **changes):
    def edit(folder):
        edit_line(folder, RUNS, number, lambda line: line["result"].update(changes))

    return edit


def set_spec(number, **changes):
    return lambda folder: respecify(folder, number, **changes)


def episodes_of(folder, number):
    line = json.loads((folder / RUNS).read_text().splitlines()[number])
    return folder / "episodes" / "classic" / f"{line['run_id']}.csv"


def edit_episodes(number, edit):
    def apply(folder):
        path = episodes_of(folder, number)
        path.write_text(edit(path.read_text()))
        sign(folder)

    return apply


def swap_episodes(folder):
    one, other = episodes_of(folder, BC), episodes_of(folder, BC + 1)
    first, second = one.read_text(), other.read_text()
    one.write_text(second)
    other.write_text(first)
    sign(folder)


def remove_run(folder, number=BC + 2):
    """Removes a run completely: its line, its episodes and its entry in the manifest."""
    lines = (folder / RUNS).read_text().splitlines(keepends=True)
    path = episodes_of(folder, number)
    path.unlink()
    (folder / RUNS).write_text("".join(lines[:number] + lines[number + 1 :]))
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["files"][path.relative_to(folder).as_posix()]
    manifest["suites"]["classic"]["runs"] -= 1
    (folder / "manifest.json").write_text(json.dumps(manifest))
    sign(folder)


def hide_failure(folder):
    (folder / FAILURES).unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["files"][FAILURES]
    manifest["suites"]["classic"]["failures"] = 0
    (folder / "manifest.json").write_text(json.dumps(manifest))
    sign(folder)


def twice(folder):
    lines = (folder / RUNS).read_text()
    (folder / RUNS).write_text(lines + lines.splitlines()[0] + "\n")
    sign(folder)


def list_foreign_path(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["../outside.csv"] = "0" * 64
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder.parent / "outside.csv").write_text("secret")
    sign(folder)


def edit_manifest(edit, *, signed=True):
    def apply(folder):
        manifest = json.loads((folder / "manifest.json").read_text())
        edit(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))
        if signed:
            sign(folder)

    return apply


def set_references(folder):
    edit_line(folder, RUNS, BC, lambda line: line["result"]["references"].update(expert=-300.0))


def edit_spec_only(folder):
    edit_line(folder, RUNS, BC, lambda line: line["spec"].update(seed=7))


def budget(amount, unit="batches", name="quick"):
    return {"budget": {"name": name, "unit": unit, "amount": amount}}


def hyperparameters(**changes):
    default = {
        "batch_size": 64, "learning_rate": 0.001, "ent_weight": 0.001, "l2_weight": 0.0,
        "hidden_size": 64, "hidden_layers": 2, "normalize_observations": True,
    }  # fmt: skip
    return {"hyperparameters": default | changes}


EDITS = {
    "a number": (
        lambda folder: change(folder, RUNS, '"raw_return":-', '"raw_return":-1', signed=False),
        {"digests", "scores"}, "does not have the digest in the manifest",
    ),
    "a number and its digests": (
        set_result(BC, raw_return=-150.0), {"scores"}, "raw_return -150 is not the mean"),
    "a spread": (set_result(BC, return_std=1.0), {"scores"}, "is not the spread"),
    "a rate": (set_result(BC, termination_rate=0.5), {"scores"}, "share of its episodes"),
    "no number": (set_result(BC, raw_return="NaN"), {"lines", "seeds", "manifest"},
                  "line 1: raw_return"),
    "an infinite time": (
        lambda folder: change(folder, RUNS, '"wall_s":2.0', '"wall_s":Infinity'),
        {"values"}, "wall_s is inf"),
    "the manifest": (
        lambda folder: change(folder, "manifest.json", "results push", "results", signed=False),
        {"digests"}, "manifest.json: was changed"),
    "the manifest, without its digest": (
        edit_manifest(lambda m: (m.update(command="mine"), m.pop("digest")), signed=False),
        {"digests"}, "manifest.json: has no digest of its own"),
    "a digest of nothing": (
        edit_manifest(lambda m: m.update(digest=None), signed=False),
        {"digests"}, "manifest.json: has no digest of its own"),
    "a suite without runs": (
        edit_manifest(lambda m: m["suites"].update(
            seals={"runs": 0, "failures": 0, "algorithms": [], "environments": []})),
        {"manifest"}, "suites.seals has no readable run"),
    "an algorithm without runs": (
        edit_manifest(lambda m: m["suites"]["classic"]["algorithms"].append("airl")),
        {"manifest"}, "suites.classic does not match"),
    "an environment without runs": (
        edit_manifest(lambda m: m["suites"]["classic"]["environments"].append("Acrobot-v1")),
        {"manifest"}, "suites.classic does not match"),
    "a provenance without runs": (
        edit_manifest(lambda m: m["provenances"].update(
            spare=next(iter(m["provenances"].values())))),
        {"manifest"}, "provenances.spare belongs to no run"),
    "episodes": (
        edit_episodes(BC, lambda text: text.replace("0,false,-", "0,false,-9", 1)),
        {"scores"}, "is not the mean of its episodes"),
    "swapped episodes": (swap_episodes, {"scores"}, "line 2: raw_return"),
    "fewer episodes": (
        edit_episodes(BC, lambda text: "".join(text.splitlines(keepends=True)[:-1])),
        {"episodes"}, "49 episodes, and the specification says 50"),
    "an episode twice": (
        edit_episodes(BC, lambda text: text.replace("\n1,", "\n0,", 1)),
        {"episodes", "manifest", "seeds"}, "is not that of episode 1"),
    "a run's line twice": (twice, {"identity"}, "occurs twice"),
    "a hidden run": (remove_run, {"seeds"}, "bc (budget quick, all demonstrations) on "
                     "Pendulum-v1: no run of seed 2"),
    "a hidden failure": (hide_failure, {"seeds"}, "no run of seed 1"),
    "a stray file": (
        lambda folder: (folder / "notes.txt").write_text("x"), {"files"}, "notes.txt"),
    "a stray folder": (
        lambda folder: [(folder / ".x").mkdir(), (folder / ".x" / "y").write_text("")],
        {"files"}, ".x/y: is not in the manifest"),
    "a link": (
        lambda folder: (folder / "README.md").symlink_to("/etc/hostname"), {"files"}, "is a link"),
    "a lost file": (
        lambda folder: episodes_of(folder, BC).unlink(),
        {"files", "episodes", "manifest", "seeds"}, "no such file"),
    "a path that leads out": (
        list_foreign_path, {"files"}, "'../outside.csv' is not a valid file name"),
    "a specification": (edit_spec_only, {"identity", "manifest", "seeds"}, "run_id or spec_digest"),
    "a smaller budget": (set_spec(BC, **budget(10)), {"budget"}, "10 batches; budget quick"),
    "another unit": (
        set_spec(BC, **budget(20000, "env_steps")), {"budget", "values"}, "counts env_steps"),
    "no such budget": (
        set_spec(BC, **budget(1000, name="tiny")), {"budget", "seeds"},
        "budget 'tiny' is not one of quick"),
    "a hyper-parameter out of range": (
        set_spec(BC, **hyperparameters(batch_size=0), variant="batch_size=0"),
        {"algorithm", "seeds", "manifest", "disclosure"}, "batch_size must be at least 1"),
    "a hidden variant": (
        set_spec(BC, **hyperparameters(batch_size=128)), {"algorithm"},
        "labeled '', but its settings differ from the card by 'batch_size=128'"),
    "a hidden pack": (
        set_spec(BC, pack=5), {"algorithm"},
        "labeled '', but its settings differ from the card by 'pack=5'"),
    "a pack of a method without packs": (
        set_spec(BC, pack=5, variant="pack=5"), {"algorithm", "seeds", "manifest"},
        "bc: a pack of 5 seeds; it trains one seed at a time"),
    "an unknown hyper-parameter": (
        set_spec(BC, **hyperparameters(trick=1)), {"algorithm"}, "has no hyper-parameter trick"),
    "a hyper-parameter left out": (
        set_spec(BC, hyperparameters={}), {"algorithm"}, "lacks hyper-parameter batch_size"),
    "a hyper-parameter that is no number": (
        lambda folder: edit_line(
            folder, RUNS, BC,
            lambda line: line["spec"]["hyperparameters"].update(learning_rate=float("nan"))),
        {"lines", "files", "seeds", "manifest"}, "spec.hyperparameters.learning_rate"),
    "another implementation": (
        set_spec(BC, implementation="evil:Learner"), {"algorithm"}, "is not the card's"),
    "other demonstrations": (
        set_spec(BC, demos={"source": "bundled", "repo": "best", "digest": "0" * 64,
                            "available": 50, "count": 50}),
        {"algorithm"}, "50 demonstrations of best; the suite comes with 50 of sac-Pendulum-v1"),
    "demonstrations of the same name": (
        set_spec(BC, demos={"source": "bundled", "repo": "sac-Pendulum-v1", "digest": "0" * 64,
                            "available": 50, "count": 50}),
        {"algorithm"}, "demonstrations sac-Pendulum-v1: its digest is 000000000000, this"),
    "a better draw of demonstrations": (
        set_spec(BC, demos={"source": "bundled", "repo": "sac-Pendulum-v1", "digest": "0" * 64,
                            "available": 50, "count": 10, "subsample_seed": 5}),
        {"algorithm", "seeds"}, "were not drawn by its seed"),
    "actions hidden from a method that needs them": (
        set_spec(BC, demos={"source": "bundled", "repo": "sac-Pendulum-v1", "digest": "0" * 64,
                            "available": 50, "count": 50, "actions": "hidden"}),
        {"algorithm", "seeds"}, "no actions: needs the demonstrator's actions"),
    "a supplement of the same name": (
        set_spec(BC, demos={"source": "bundled", "repo": "sac-Pendulum-v1", "digest": "0" * 64,
                            "available": 50, "count": 50, "supplement": [
                                {"source": "bundled", "repo": "medium-Pendulum-v1", "count": 2,
                                 "digest": "0" * 64, "name": "medium", "available": 10}]}),
        {"algorithm", "seeds"}, "set medium medium-Pendulum-v1: its digest is 000000000000, this"),
    "a hidden reward": (
        set_spec(BC, uses_reward=True), {"algorithm"}, "uses the environment's reward"),
    "an easier environment": (
        set_spec(BC, environment={"id": "Pendulum-v1", "kwargs": {"g": 1.0}}), {"suite"},
        "module, kwargs, horizon"),
    "another protocol": (
        set_spec(BC, protocol={"episodes": 50, "environments": 1}), {"suite"}, "in 1 environments"),
    "other references": (set_references, {"references"}, "expert -300"),
    "an episode too long": (
        edit_episodes(BC, lambda text: text.replace(",200,", ",201,")),
        {"values", "scores"}, "Pendulum-v1 ends after 200"),
    "an episode too short": (
        edit_episodes(BC, lambda text: text.replace(",200,", ",100,")),
        {"values", "scores"}, "100 steps where all have 200"),
    "few steps": (set_result(GAIL, env_steps=5), {"values"}, "far from its budget of 20000"),
    "many steps": (set_result(GAIL, env_steps=10**6), {"values"}, "far from its budget"),
    "second reference of a run": (
        lambda folder: edit_line(
            folder, RUNS, BC, lambda line: line["result"]["references"].update(expert_likely=-900.0)
        ),
        {"references"}, "expert_likely -900: the suite's card states it, runs do not"),
    "time that runs backwards": (
        set_result(BC, finished_at="2025-01-01T00:00:00.000+00:00"), {"values"},
        "it finished before it started"),
    "negative time": (set_result(BC, wall_s=-1.0), {"values"}, "wall_s is -1"),
    "no time": (set_result(BC, started_at="soon"), {"values"}, "'soon' is not a time"),
}  # fmt: skip


def test_what_was_published_is_valid(submission):
    validation = validate(submission)
    assert (validation.valid, validation.problems) == (True, ())
    assert len(validation.submission.runs) == 9
    [told] = validation.notes
    assert "nothing was run on seals/CartPole-v0, seals/MountainCar-v0" in str(told)


@pytest.mark.parametrize("case", EDITS.values(), ids=EDITS)
def test_every_edit_is_caught(submission, case):
    edit, checks, message = case
    edit(submission)
    validation = validate(submission)
    assert set(validation.failed) == checks
    problems = [str(each) for each in validation.problems]
    assert any(message in problem for problem in problems), problems
    assert all("\n" not in problem for problem in problems)


def test_all_problems_are_reported_together(submission):
    set_result(BC, raw_return=0.0, wall_s=-1.0)(submission)
    set_spec(BC + 1, **budget(10))(submission)
    (submission / "stray").write_text("")
    assert set(validate(submission).failed) == {"scores", "values", "budget", "files"}


def test_seeds_and_environments_are_those_of_a_budget():
    def problems(*specs):
        findings = Findings()
        check_seeds([LocatedRun("line", PublishedRun(spec)) for spec in specs], findings)
        return [str(problem) for problem in findings.problems]

    here, there = "Pendulum-v1", "seals/CartPole-v0"
    quick = [make_spec(env=env, seed=seed) for env in (here, there) for seed in (0, 1)]
    part = Budget(name="default/4", unit="batches", amount=1000)
    fewer = make_spec(env=here, budget=part)
    assert problems(*quick, fewer) == []
    [problem] = problems(*quick[:-1], fewer)
    assert f"on {there}: no run of seed 1" in problem
    more = [make_spec(algo="gail", env=here, seed=seed, budget=part) for seed in (0, 1)]
    [problem] = problems(*quick, fewer, *more)
    assert f"bc (budget default/4) on {here}: no run of seed 1" in problem


def test_the_runs_that_seeds_require_are_bounded_over_all_budgets(monkeypatch):
    monkeypatch.setattr("imitbench.published.validation._MOST_RUNS", 5)
    specs = [
        make_spec(seed=seed, budget=Budget(name=name, unit="batches", amount=10))
        for name in ("quick", "default") for seed in range(3)
    ]  # fmt: skip
    findings = Findings()
    check_seeds([LocatedRun("line", PublishedRun(spec)) for spec in specs], findings)
    [problem] = findings.problems
    assert "more than 5 runs would be required" in str(problem)


def test_a_failed_run_on_record_counts_for_its_seed(submission):
    assert json.loads((submission / FAILURES).read_text())["spec"]["seed"] == 1
    assert validate(submission).of_check("seeds") == []


def test_what_is_not_bundled_is_noted_and_not_a_problem(tmp_path):
    write_submitted_runs(tmp_path / "runs", algorithms=["bc"], failing=())
    folder = publish(tmp_path / "runs", tmp_path / "submission")
    for number in range(3):
        respecify(folder, number, algo="mine", implementation="me:Mine")
    manifest = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(manifest.replace('"bc"', '"mine"'))
    sign(folder)
    validation = validate(folder)
    assert validation.valid, validation.problems
    assert any(
        "mine: is not an algorithm of this package" in str(each) for each in validation.notes
    )


def test_the_digest_covers_all_that_is_there(submission):
    before = validate(submission).submission.manifest
    change(submission, "manifest.json", "results push", "results pull")
    after = validate(submission).submission.manifest
    assert before.digest == before.own_digest
    assert after.digest == after.own_digest != before.digest


def foreign(submission, number, part):
    """States another digest for the data that a run learned from, under the same name."""
    document = json.loads((submission / RUNS).read_text().splitlines()[number])["spec"][part]
    set_spec(number, **{part: document | {"digest": "0" * 64}})(submission)


def test_an_expert_of_the_same_name_is_caught(tmp_path):
    write_submitted_runs(tmp_path / "runs", algorithms=["expert"], failing=())
    folder = publish(tmp_path / "runs", tmp_path / "submission")
    foreign(folder, 0, "expert")
    [problem] = validate(folder).problems
    assert problem.check == "algorithm"
    assert "expert sac-Pendulum-v1: its digest is 000000000000, this package's" in problem.what


@pytest.fixture
def later_suite(monkeypatch):
    """The package comes with a later version of the suite than submissions were made with."""

    def load(name):
        return load_suite(name).model_copy(update={"version": "2"})

    monkeypatch.setattr("imitbench.records.bundled_cards._suite", load)


@pytest.mark.usefixtures("later_suite")
def test_demonstrations_of_an_earlier_suite_are_noted_and_not_a_problem(submission):
    foreign(submission, BC, "demos")
    lines = [json.loads(line) for line in (submission / RUNS).read_text().splitlines()]
    validation = validate(submission)
    assert validation.valid, validation.problems
    [told] = [each.what for each in validation.notes if each.check == "algorithm"]
    digest = lines[BC + 1]["spec"]["demos"]["digest"]
    assert told == (
        f"demonstrations sac-Pendulum-v1: its digest is {'0' * 12}, this package's {digest[:12]}"
    )
    [told] = [each.what for each in validation.notes if each.check == "references"]
    assert told == "references of version 1; this package has 2, so scores do not compare"


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("0", "version 0, which this package does not know; it has 1"),
        ("2", "version 2, which this package does not know"),
        ("", "which this package does not know"),
        ("1+bundled", "no run here learned from that source"),
        ("1+hub:0123abcd", "no run here learned from that source"),
        ("0+path:mine", "no run here learned from that source"),
    ],
)
def test_submitters_cannot_choose_the_scale_of_scores(submission, version, message):
    """Neither by a version that never existed, nor by an expert from which no run learned."""
    references = {"random": -1199.6467, "expert": -1000.0, "version": version}
    for number in range(len((submission / RUNS).read_text().splitlines())):
        edit_line(submission, RUNS, number,
                  lambda line: line["result"].update(references=references))  # fmt: skip
    problems = validate(submission).of_check("references")
    assert problems
    assert all(message in each.what for each in problems), problems


@pytest.mark.parametrize(
    ("source", "version", "valid"),
    [
        ("path:mine", "1+path:mine", True),
        ("hub", "1+hub:0123abcd", True),
        ("hub", "1+hub:0123abcde", False),
        ("path:mine", "1+path:others", False),
        ("path:mine", "1+path:mine+more", False),
    ],
)
def test_an_expert_from_elsewhere_is_that_of_the_runs(tmp_path, source, version, valid):
    """Runs without demonstrations may have the references of the other runs."""
    write_submitted_runs(tmp_path / "runs", algorithms=["bc", "random"], failing=())
    folder = publish(tmp_path / "runs", tmp_path / "submission")
    lines = [json.loads(line) for line in (folder / RUNS).read_text().splitlines()]
    for number, line in enumerate(lines):
        demos = line["spec"]["demos"]
        if demos:
            respecify(folder, number, demos=demos | {"source": source})
        edit_line(folder, RUNS, number,
                  lambda line: line["result"]["references"].update(version=version))  # fmt: skip
    assert validate(folder).of_check("references") == [] if valid else not validate(folder).valid


@pytest.mark.parametrize("content", [None, "", "[]", '{"format": "other"}', "\xff"])
def test_a_folder_without_published_results_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "manifest.json").write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match=r"manifest\.json"):
        validate(tmp_path)


def test_a_pipe_does_not_block(submission):
    path = episodes_of(submission, BC)
    path.unlink()
    os.mkfifo(path)
    assert "files" in validate(submission).failed


def test_the_checks_have_meanings_and_are_documented():
    assert set(MEANINGS) == set(CHECKS)
    told = Path(__file__).resolve().parents[2].joinpath("docs/leaderboard.md").read_text()
    table = told.partition("| check |")[2].partition("\n\n")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == CHECKS


def test_a_huge_seed_is_checked_without_counting_up_to_it(submission):
    """Seeds may be any numbers: the check does not loop over all smaller ones."""
    set_spec(BC, seed=2**62)(submission)
    assert validate(submission).failed == ["seeds"]


def test_names_in_a_submission_cannot_write_on_the_terminal(submission):
    manifest = json.loads((submission / "manifest.json").read_text())
    evil = "cl\x1b]0;pwned\x07\x1b[31m"
    manifest["suites"][evil] = manifest["suites"].pop("classic")
    for kind in ("runs", "failures"):
        (submission / kind / "classic.jsonl").rename(submission / kind / f"{evil}.jsonl")
        manifest["files"][f"{kind}/{evil}.jsonl"] = manifest["files"].pop(f"{kind}/classic.jsonl")
    (submission / "manifest.json").write_text(json.dumps(manifest))
    sign(submission)
    validation = validate(submission)
    assert all(str(each).isprintable() for each in validation.problems + validation.notes)
    answer = call_imitbench("leaderboard", "validate", ".", cwd=submission)
    assert answer.code == 1
    assert (answer.out + answer.err).replace("\n", "").isprintable()


VALUES = [
    None, True, -1, 1e308, float("nan"), float("inf"), 2**63, "", "../../x", "<script>",
    "\x1b[31m", "é" * 300, [], {}, [1], {"a": 1}, "9" * 5000, 10**400,
]  # fmt: skip


def places(document, before=()):
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        yield (*before, key)
        if isinstance(value, dict | list):
            yield from places(value, (*before, key))


def mutate(document, rng):
    """Replaces any value with any other, or removes it."""
    *way, last = rng.choice(list(places(document)))
    for key in way:
        document = document[key]
    if rng.random() < 0.2:
        del document[last]
    else:
        document[last] = rng.choice(VALUES)


def spoil(folder, rng):
    """Makes one mutation; most are signed, as a deliberate edit would be."""
    if rng.random() < 0.3:
        manifest = json.loads((folder / "manifest.json").read_text())
        mutate(manifest, rng)
        (folder / "manifest.json").write_text(json.dumps(manifest))
    elif rng.random() < 0.7:
        name = rng.choice([RUNS, FAILURES])
        lines = (folder / name).read_text().splitlines()
        edit_line(folder, name, rng.randrange(len(lines)), lambda line: mutate(line, rng))
    else:
        path = episodes_of(folder, BC)
        cells = path.read_text().split(",")
        cells[rng.randrange(len(cells))] = str(rng.choice(VALUES))
        path.write_text(",".join(cells))
        sign(folder)


@pytest.mark.parametrize("seed", range(4))
def test_problems_are_printable_lines_for_any_content(published, tmp_path, seed):
    rng = random.Random(seed)
    for number in range(10):
        folder = Path(shutil.copytree(published, tmp_path / str(number)))
        spoil(folder, rng)
        try:
            validation = validate(folder)
        except InputError as error:
            assert str(error).isprintable()
        else:
            assert all(str(each).isprintable() for each in validation.problems + validation.notes)
