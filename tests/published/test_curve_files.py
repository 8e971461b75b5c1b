"""Learning curves of published results are few points at steps that the run had."""

import json

import numpy as np
import pytest
from support.published import change, publish, sign
from support.submissions import write_submitted_runs

from imitbench.errors import InputError
from imitbench.published.results_folder import curve_text, parse_curve
from imitbench.published.validation import validate
from imitbench.records.curves import MOST_POINTS, RETURN_METRIC, LearningCurve, main_curve
from imitbench.store.run_dir import RunDirectory


def points(values, metric=RETURN_METRIC):
    return [{"step": 10 * place, metric: value} for place, value in enumerate(values)]


@pytest.mark.parametrize("count", [1, 2, MOST_POINTS, MOST_POINTS + 1, 1_000, 12_345])
def test_thinning_keeps_ends_and_extremes_and_is_done_once(count):
    values = np.random.default_rng(count).normal(size=count)
    curve = main_curve(points(values.tolist()))
    assert curve.steps.size <= MOST_POINTS
    assert curve.steps.size > 0.9 * min(count, MOST_POINTS)
    assert (np.diff(curve.steps) > 0).all()
    assert curve.values[[0, -1]].tolist() == values[[0, -1]].tolist()
    assert (curve.values.max(), curve.values.min()) == (values.max(), values.min())
    assert (values[curve.steps // 10] == curve.values).all()
    again = main_curve(curve.points)
    assert (again.steps == curve.steps).all()
    assert (again.values == curve.values).all()


def test_the_latest_point_of_a_step_counts_and_no_value_is_made_up():
    curve = main_curve([*points([1.0, float("nan"), 3.0]), {"step": 20, RETURN_METRIC: 4.0}])
    assert curve.points == [{"step": 0, RETURN_METRIC: 1.0}, {"step": 20, RETURN_METRIC: 4.0}]
    assert main_curve(points([float("inf")])) is None
    assert main_curve([]) is None


def test_numbers_are_read_as_they_were():
    values = np.array([1 / 3, -1e-300, 1.7976931348623157e308])
    curve = LearningCurve("a/loss", np.array([0, 1, 2**62]), values)
    read = parse_curve(curve_text(curve))
    assert (read.metric, read.steps.tolist()) == ("a/loss", curve.steps.tolist())
    assert (read.values == values).all()


WRONG = {
    "": "columns must be",
    "step\n1\n": "columns must be",
    "step,loss,other\n1,2,3\n": "columns must be",
    "step,size\n1,2\n": "unknown metric 'size'",
    "step,<b>/loss\n1,2\n": "unknown metric",
    "step,loss\n": "0 points",
    "step,loss\n" + "".join(f"{n},1\n" for n in range(201)): "201 points",
    "step,loss\n1,nan\n": "not finite",
    "step,loss\n1,1\n1,2\n": "do not ascend",
    "step,loss\n2,1\n1,2\n": "do not ascend",
    "step,loss\n1.5,1\n": "not a learning curve",
    "step,loss\n1\n": "not a learning curve",
    f"step,loss\n{10**30},1\n": "not a learning curve",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items(), ids=WRONG.values())
def test_what_is_no_curve_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_curve(text)


@pytest.fixture
def submission(tmp_path):
    """Runs of `bc` (batches) and `gail` (environment steps) with curves, one of which failed."""
    out = tmp_path / "runs"
    write_submitted_runs(out, algorithms=("bc", "gail"))
    for path in out.glob("*/*/*/*/spec.json"):
        directory = RunDirectory(path.parent)
        amount = directory.read_spec().budget.amount
        directory.write_curve([{"step": amount // 2, "loss": 0.5}, {"step": amount, "loss": 0.25}])
    return publish(out, tmp_path / "submission")


def curves_of(folder, algo):
    lines = [json.loads(line) for line in (folder / "runs/classic.jsonl").read_text().splitlines()]
    return [
        (f"curves/classic/{line['run_id']}.csv", line["spec"]["budget"]["amount"])
        for line in lines
        if line["spec"]["algo"] == algo
    ]


def findings(folder):
    return [(each.check, str(each)) for each in validate(folder).problems]


def test_runs_that_completed_have_valid_curves(submission):
    assert findings(submission) == []
    assert len(list((submission / "curves/classic").iterdir())) == 5


@pytest.mark.parametrize("algo", ["bc", "gail"])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{half},0.5", "-1,0.5", "a point at step -1"),
        ("{amount},", "{more},", "a point at step {more}; the run had {amount}"),
        ("0.25", "inf", "a value is not finite"),
        ("loss", "secret", "unknown metric 'secret'"),
    ],
)
def test_one_finding_tells_what_is_wrong_with_a_curve(submission, algo, old, new, message):
    name, amount = curves_of(submission, algo)[0]
    numbers = {"half": amount // 2, "amount": amount, "more": amount + 1}
    change(submission, name, old.format(**numbers), new.format(**numbers))
    [(check, said)] = findings(submission)
    assert check == "curves"
    assert said.startswith(f"{name}: {message.format(**numbers)}")


def test_the_manifest_protects_curves(submission):
    name, _ = curves_of(submission, "bc")[0]
    change(submission, name, "0.25", "0.5", signed=False)
    assert [check for check, _ in findings(submission)] == ["digests"]


def test_a_curve_belongs_to_a_completed_run(submission):
    name, _ = curves_of(submission, "bc")[0]
    foreign = "curves/classic/0123456789abcdef.csv"
    (submission / foreign).write_text((submission / name).read_text())
    assert [check for check, _ in findings(submission)] == ["files"]
    manifest = json.loads((submission / "manifest.json").read_text())
    manifest["files"][foreign] = ""
    (submission / "manifest.json").write_text(json.dumps(manifest))
    sign(submission)
    [(check, said)] = findings(submission)
    assert (check, said) == (
        "files", f"{foreign}: belongs to no listed run; export the results again"
    )  # fmt: skip
