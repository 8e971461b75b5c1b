"""The table of claims is read strictly, and own results beside a claim are means over seeds."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from imitbench.errors import InputError
from imitbench.published.claim_outcomes import (
    OwnOutcome,
    compare_claims,
    own_outcomes,
    verdict_of,
    why_not_comparable,
)
from imitbench.published.claims import COLUMNS, read_claims
from imitbench.published.submission import read_strictly
from imitbench.records.curves import LearningCurve
from imitbench.records.published import PublishedRun
from imitbench.records.runs import ReferenceScores, RunFailure
from imitbench.stats.bootstrap import Interval, no_interval

RESULTS = Path(__file__).resolve().parents[2] / "results"
HOPPER = {
    "paper": "IQ-Learn",
    "year": "2021",
    "figure": "Table 3",
    "url": "https://arxiv.org/abs/2106.12142",
    "task": "Hopper-v2",
    "expert_return": "3533",
    "demos": "1",
    "claimed_return": "3305",
    "point": "not stated",
    "algo": "dac",
    "suite": "seals",
    "env": "seals/Hopper-v1",
    "budget": "default",
    "n_demos": "1",
    "config": "default",
}
CARTPOLE = HOPPER | {
    "algo": "sqil",
    "suite": "classic",
    "env": "seals/CartPole-v0",
    "budget": "full",
    "n_demos": "all",
}


@pytest.fixture
def write(tmp_path):
    """Writes rows as a table of claims and returns its path."""

    def write(*rows, header=None):
        path = tmp_path / "claims.csv"
        text = io.StringIO()
        writer = csv.DictWriter(text, header or COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        path.write_text(text.getvalue(), encoding="utf-8")
        return path

    return write


@pytest.fixture
def read(write):
    return lambda *rows, **options: read_claims(write(*rows, **options))


@pytest.fixture
def refused(read):
    """Reads a table that must be refused; returns the message without the path."""

    def refused(*rows, **options):
        with pytest.raises(InputError) as caught:
            read(*rows, **options)
        message = str(caught.value)
        assert "\n" not in message
        return message.partition("claims.csv")[2]

    return refused


def test_empty_cells_are_unknown_values(read):
    [claim] = read(HOPPER)
    assert (claim.random_return, claim.env_steps, claim.seeds, claim.note) == (None,) * 4
    assert (claim.claimed_return, claim.demos, claim.n_demos, claim.year) == (3305.0, 1, 1, 2021)


def test_the_share_is_the_return_divided_by_the_experts(read):
    [claim] = read(HOPPER)
    assert claim.share == pytest.approx(3305 / 3533)
    assert claim.score is None


def test_the_score_follows_from_the_return_of_random_actions(read):
    [claim] = read(HOPPER | {"expert_return": "150", "random_return": "-50", "claimed_return": "0"})
    assert claim.score == pytest.approx(0.25)
    assert claim.share == 0


def test_a_stated_score_is_kept(read):
    [claim] = read(HOPPER | {"claimed_score": "0.9"})
    assert claim.score == 0.9


def test_there_is_no_share_of_an_expert_with_a_negative_return(read):
    [claim] = read(HOPPER | {"expert_return": "-98", "claimed_return": "-100"})
    assert claim.share is None


def in_regime(**changes):
    return {**{name: cell for name, cell in HOPPER.items() if name != "n_demos"}, **changes}


def test_a_regime_stands_for_the_number_of_demonstrations(read):
    few, one, full = read(*(in_regime(regime=name, figure=name) for name in ("few", "one", "full")))
    shown = [claim.own_conditions for claim in (few, one, full)]
    assert [(each.n_demos, each.demo_every) for each in shown] == [(1, 20), (1, 1), ("all", 1)]
    assert few.command().endswith("--seeds 10 --regime few")
    [plain] = read(HOPPER)
    assert plain.own_conditions == one.own_conditions


def test_a_regime_excludes_a_number_and_must_exist(refused):
    assert "regime: says what n_demos says" in refused(HOPPER | {"regime": "few"})
    assert "has no regime fwe; did you mean 'few'" in refused(in_regime(regime="fwe"))


def test_the_command_names_what_differs_from_the_defaults(read):
    hopper, cartpole, tuned = read(HOPPER, CARTPOLE, HOPPER | {"config": "tuned", "point": "last"})
    start = "imitbench run --algo dac --suite seals --env seals/Hopper-v1 --seeds 10"
    assert hopper.command() == f"{start} --n-demos 1"
    assert tuned.command(seeds=6, pack=3, device="cuda") == (
        f"{start[:-2]}6 --n-demos 1 --config tuned --pack 3 --device cuda"
    )
    assert cartpole.command() == (
        "imitbench run --algo sqil --suite classic --env seals/CartPole-v0 --seeds 10 --budget full"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"year": "21"}, "year: Input should be greater than or equal to 1980"),
        ({"claimed_return": "many"}, "claimed_return: Input should be a valid number"),
        ({"claimed_return": "nan"}, "claimed_return: Input should be a finite number"),
        ({"claimed_return": ""}, "needs claimed_return or claimed_score"),
        ({"url": "http://example.org"}, "url: String should match"),
        ({"point": "final"}, "point: Input should be 'last', 'best' or 'not stated'"),
        ({"algo": "dacc"}, "algo 'dacc': did you mean 'dac'?"),
        ({"suite": "seal"}, "suite 'seal': did you mean 'seals'?"),
        ({"env": "Hopper-v1"}, "env 'Hopper-v1': did you mean 'seals/Hopper-v1'?"),
        ({"budget": "huge"}, "budget: must be one of quick, default, full, or"),
        ({"algo": "mce_irl"}, "algo mce_irl on seals/Hopper-v1: plans with the model"),
        ({"n_demos": ""}, "n_demos of dac must be a number or all"),
        ({"n_demos": "20"}, "n_demos 20: seals/Hopper-v1 has 20; write all"),
        ({"algo": "dagger"}, "n_demos of dagger must be empty, it uses no demonstrations"),
        ({"random_return": "4000"}, "random_return needs an expert_return above it"),
        (
            {"random_return": "1", "claimed_score": "0.9"},
            "claimed_score is stated, so random_return must be empty",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_value_is_refused_with_its_line(refused, change, message):
    told = refused(HOPPER, HOPPER | {"point": "best"} | change)
    assert told.startswith(", line 3: ")
    assert message in told


def test_a_required_value_must_be_there(refused):
    assert refused(HOPPER | {"task": ""}) == ", line 2: task: Field required"


def test_an_unknown_column_is_refused_with_the_nearest_one(refused):
    told = refused(header=[*COLUMNS, "enviroment"])
    assert told.startswith(", line 1: unknown column 'enviroment'; ")
    assert "Accepted: algo, budget," in told
    assert "did you mean 'seeds'?" in refused(header=["paper", "seedz"])


def test_a_missing_column_is_refused(refused):
    header = [name for name in COLUMNS if name != "budget"]
    assert refused(header=header) == ", line 1: column budget is missing"


def test_a_column_may_not_occur_twice(refused):
    assert refused(header=[*COLUMNS, "note"]) == ", line 1: two columns are 'note'"


def test_the_same_claim_twice_is_refused(refused):
    assert refused(HOPPER, HOPPER).startswith(", line 3: the same claim as in line 2; ")


def test_a_table_without_rows_is_refused(refused):
    assert refused() == ": has no rows below its header"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; its first line must name the columns"),
        (b"paper\xff\n", "is not UTF-8; save the table as UTF-8"),
        (b'paper,"year\n', "is not a CSV table"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, content, message):
    path = tmp_path / "claims.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_claims(path)


def test_a_row_with_too_many_cells_is_refused(write):
    path = write(HOPPER)
    path.write_text(path.read_text().rstrip("\n") + ",more\n")
    with pytest.raises(InputError, match=r"line 2: 22 cells, and the header has 21"):
        read_claims(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_claims(tmp_path / "claims.csv")


@pytest.fixture(scope="module")
def full():
    """The published runs of suite classic with the full budget."""
    return read_strictly(RESULTS / "imitbench-classic-full").published


@pytest.fixture
def cartpole(full):
    """Ten runs, five of which have lost their policy."""
    return [
        run
        for run in full
        if (run.spec.algo, run.spec.environment.id) == ("sqil", "seals/CartPole-v0")
    ]


@pytest.fixture
def beside(read):
    """Own results beside the claim about CartPole."""
    return lambda runs: own_outcomes(read(CARTPOLE), runs)[0]


def test_own_results_are_means_over_the_seeds_of_fitting_runs(full, cartpole, beside):
    own = beside(full)
    returns = [run.result.raw_return for run in cartpole]
    scores = [
        run.result.references.score(value) for value, run in zip(returns, cartpole, strict=True)
    ]
    assert own.seeds == len(cartpole) == 10
    assert own.mean_return == pytest.approx(sum(returns) / 10)
    assert own.score.point == pytest.approx(sum(scores) / 10)
    assert own.share.point == pytest.approx(sum(returns) / 10 / 500)
    assert own.failed == sum(score < 0.5 for score in scores) == 5
    assert own.best_score is None


def failed(run):
    failure = RunFailure(
        run_id=run.spec.run_id,
        phase="train",
        error_type="ValueError",
        message="rewards are not finite",
        traceback="",
        failed_at=run.result.finished_at,
        references=run.result.references,
        provenance=run.result.provenance,
    )
    return PublishedRun(run.spec, failure=failure)


def test_a_failed_run_is_a_failed_seed_and_counts_as_random_actions(cartpole, beside):
    good = max(cartpole, key=lambda run: run.result.raw_return)
    other = next(run for run in cartpole if run.spec.seed != good.spec.seed)
    own = beside([good, failed(other)])
    references = good.result.references
    assert (own.seeds, own.failed) == (2, 1)
    assert own.score.point == pytest.approx(references.score(good.result.raw_return) / 2)
    assert own.mean_return == pytest.approx((good.result.raw_return + references.random) / 2)


def test_where_scores_are_shares_of_successes_returns_are_none(cartpole, beside):
    scale = ReferenceScores(random=0.0, expert=1.0, version="1", score_one="success")
    successes = {"references": scale, "raw_return": 80.0, "success_rate": 0.75}
    runs = [
        replace(curved(run, 90.0, 95.0), result=run.result.model_copy(update=successes))
        for run in cartpole
    ]
    failure = failed(runs[0])
    runs[0] = replace(failure, failure=failure.failure.model_copy(update={"references": scale}))
    own = beside(runs)
    assert own.score.point == pytest.approx(0.75 * (len(runs) - 1) / len(runs))
    assert (own.failed, own.share, own.best_score) == (1, None, None)


def curved(run, *values, metric="rollout/return_mean"):
    """The run with these values on its learning curve."""
    steps = np.arange(len(values), dtype=np.int64)
    return replace(run, curve=LearningCurve(metric, steps, np.array(values, dtype=float)))


def test_the_best_point_needs_the_curves_of_all_seeds(cartpole, beside):
    random, expert = (getattr(cartpole[0].result.references, name) for name in ("random", "expert"))
    best = [curved(run, random, expert, random) for run in cartpole]
    assert beside(best).best_score == pytest.approx(1)
    assert beside([curved(best[0], random), *best[1:]]).best_score == pytest.approx(0.9)
    assert beside([cartpole[0], *best[1:]]).best_score is None
    losses = curved(best[0], expert, metric="bc/loss")
    assert beside([losses, *best[1:]]).best_score is None


@pytest.mark.parametrize(
    "change",
    [{"budget": "quick"}, {"n_demos": "1"}, {"algo": "gail"}, {"config": "tuned"}],
    ids=str,
)
def test_runs_under_other_conditions_do_not_fit(cartpole, read, change):
    assert own_outcomes(read(CARTPOLE | change), cartpole) == [None]


def respecified(run, **changes):
    return PublishedRun(run.spec.model_copy(update=changes), run.result)


def test_runs_of_a_regime_stand_beside_its_claim_only(cartpole, read):
    claims = read(CARTPOLE, {**CARTPOLE, "n_demos": "", "regime": "few", "figure": "few"})
    spec = cartpole[0].spec
    demos = spec.demos.model_copy(update={"count": 1, "every": 20})
    thinned = respecified(cartpole[0], demos=demos)
    assert [own is not None for own in own_outcomes(claims, [thinned])] == [False, True]
    assert [own is not None for own in own_outcomes(claims, cartpole)] == [True, False]


def test_runs_with_other_hyper_parameters_do_not_fit(cartpole, beside):
    assert beside([respecified(run, variant="gamma=0.9") for run in cartpole]) is None


def test_packed_and_single_runs_are_never_averaged(cartpole, beside):
    packed = [respecified(run, pack=5, variant="pack=5") for run in cartpole]
    own = beside([*packed, *cartpole[:4]])
    assert (own.seeds, own.pack) == (10, 5)
    own = beside([*packed, *cartpole])
    assert (own.seeds, own.pack) == (10, None)


SEALS = HOPPER | {"task": "seals/Hopper-v0", "expert_return": "2400", "claimed_return": "1920"}


def outcome(low, high):
    share = Interval((low + high) / 2, low, high)
    return OwnOutcome(10, 0, 0.0, share, no_interval(0.0, 0.95), None)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.71, 0.89, ("reproduced", "")),
        (0.69, 0.85, ("undecided", "seeds: 10")),
        (0.75, 0.91, ("undecided", "seeds: 10")),
        (0.91, 0.95, ("not reproduced", "higher here")),
        (0.60, 0.69, ("not reproduced", "lower here")),
        (float("nan"), float("nan"), ("undecided", "seeds: 10")),
    ],
)
def test_the_verdict_follows_from_the_interval_and_the_margin(read, low, high, said):
    [claim] = read(SEALS)  # a share of 0.8
    assert verdict_of(claim, outcome(low, high)) == said


def test_a_wider_margin_is_easier_to_reach(read):
    [claim] = read(SEALS)
    assert verdict_of(claim, outcome(0.65, 0.95), margin=0.2) == ("reproduced", "")


def test_without_own_results_there_is_nothing_to_say(read):
    [claim] = read(SEALS)
    assert verdict_of(claim, None) == ("not run yet", "")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"task": "Hopper-v2"}, "other task"),
        ({"point": "best"}, "best point of a curve"),
        ({"expert_return": "1200"}, "other expert: 1200, here 2374"),
        ({"expert_return": ""}, "no return of its expert is stated"),
        ({"expert_return": "", "claimed_score": "0.8"}, None),
        ({"demos": "4"}, "other number of demonstrations: 4, here 1"),
        ({"demos": ""}, None),
        ({"env_steps": "250000"}, None),
        ({"env_steps": "400000"}, "other budget: 400,000 steps, here 200,000"),
    ],
    ids=str,
)
def test_what_differs_is_not_comparable(read, change, why):
    [claim] = read(SEALS | change)
    assert why_not_comparable(claim) == why
    assert (verdict_of(claim, outcome(0.75, 0.85))[0] == "not comparable") == (why is not None)


def test_scores_decide_where_the_expert_has_no_positive_return(read, cartpole):
    row = {**CARTPOLE, "task": "seals/CartPole-v1", "demos": "", "expert_return": ""}
    [claim] = read({**row, "claimed_score": "0.5"})
    [compared] = compare_claims([claim], cartpole)
    assert compared.verdict == "undecided"
    narrow = replace(compared.own, share=None, score=Interval(0.5, 0.45, 0.55))
    assert verdict_of(claim, narrow) == ("reproduced", "")


def test_claims_are_numbered_by_method(read, cartpole):
    compared = compare_claims(read(CARTPOLE, HOPPER), cartpole)
    assert [(each.number, each.claim.algo) for each in compared] == [(1, "dac"), (2, "sqil")]
    assert [each.own is None for each in compared] == [True, False]
