"""Kinds of cheating submissions, each made from one honest export, and what finds them.

`python tests/support/forge.py` writes the table in docs/frauds.md. A test checks both.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imitbench.published.results_folder import parse_episodes
from imitbench.published.run_checks import recompute
from imitbench.records.runs import RunSpec
from support.published import sign

PAGE = Path(__file__).resolve().parents[2] / "docs" / "frauds.md"
SUITE = "classic"
KINDS = ("episodes", "curves")
RUNS, FAILURES = f"runs/{SUITE}.jsonl", f"failures/{SUITE}.jsonl"

FINDERS = {
    "validate": "`validate`",
    "verify": "`verify`",
    "identical": "note of `verify`",
    "alarm": "warning of `validate`",
    "against": "warning of `validate --against` and `build`",
    "check-algo": "`check-algo`",
    "nothing": "cannot be found",
}


@dataclass(frozen=True)
class Fraud:
    """A kind of fraud.

    Attributes:
        what: The fraud, for the page.
        make: Changes a copy of the honest export.
        found: Key of `FINDERS`.
        by: Names of the checks or of the warnings that find it.
    """

    what: str
    make: Callable[["Forger"], object]
    found: str
    by: tuple[str, ...] = ()


class Forger:
    """Edits a submission, and makes all that follows from the edits agree.

    Args:
        folder: Copy of the honest export: three seeds of `bc`, and of `random`, on Pendulum-v1.
        longer: Published results of the same suite whose runs trained longer.
    """

    def __init__(self, folder, longer):
        self.folder, self.longer = folder, longer

    def lines(self, folder=None):
        text = ((folder or self.folder) / RUNS).read_text()
        return [json.loads(line) for line in text.splitlines()]

    def of(self, algo):
        """Numbers of the lines of an algorithm."""
        return [n for n, line in enumerate(self.lines()) if line["spec"]["algo"] == algo]

    def write(self, lines):
        (self.folder / RUNS).write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def finish(self):
        """Lets the manifest name what the lines have, and signs."""
        path = self.folder / "manifest.json"
        manifest, lines = json.loads(path.read_text()), self.lines()
        manifest["suites"][SUITE] |= {
            "runs": len(lines),
            "algorithms": sorted({line["spec"]["algo"] for line in lines}),
        }
        ids = {line["run_id"] for line in lines}
        files = [file for kind in KINDS for file in (self.folder / kind / SUITE).glob("*.csv")]
        for file in files:
            if file.stem not in ids:
                file.unlink()
        names = [file.relative_to(self.folder).as_posix() for file in files if file.stem in ids]
        manifest["files"] = dict.fromkeys([RUNS, *names], "")
        path.write_text(json.dumps(manifest))
        sign(self.folder)

    @staticmethod
    def name(run_id, kind="episodes"):
        return f"{kind}/{SUITE}/{run_id}.csv"

    def change(self, number, edit):
        """Edits a line; its identity follows from its specification."""
        lines = self.lines()
        line = lines[number]
        edit(line)
        old, spec = line["run_id"], RunSpec.model_validate_json(json.dumps(line["spec"]))
        line |= {"run_id": spec.run_id, "spec_digest": spec.digest}
        for kind in KINDS if old != spec.run_id else ():
            file = self.folder / self.name(old, kind)
            if file.exists():
                shutil.copy(file, self.folder / self.name(spec.run_id, kind))
        self.write(lines)
        self.finish()

    def change_all(self, edit):
        for number in range(len(self.lines())):
            self.change(number, edit)

    def edit_manifest(self, edit):
        path = self.folder / "manifest.json"
        manifest = json.loads(path.read_text())
        edit(manifest)
        path.write_text(json.dumps(manifest))

    def episodes(self, number, folder=None):
        run_id = self.lines(folder)[number]["run_id"]
        return parse_episodes(((folder or self.folder) / self.name(run_id)).read_text())

    def set_episodes(self, number, returns, lengths=None):
        """Writes other returns, and all numbers that follow from them."""
        line = self.lines()[number]
        path = self.folder / self.name(line["run_id"])
        header, *rows = (row.split(",") for row in path.read_text().splitlines())
        for row, value in zip(rows, returns, strict=True):
            row[2] = repr(float(value))
        for row, length in zip(rows, [] if lengths is None else lengths, strict=False):
            row[3] = str(int(length))
        path.write_text("".join(f"{','.join(row)}\n" for row in [header, *rows]))
        self.change(number, lambda line: line["result"].update(recompute(self.episodes(number))))

    def returns(self, number):
        return self.episodes(number).returns.copy()

    def drop(self, *numbers):
        lines = [line for number, line in enumerate(self.lines()) if number not in numbers]
        self.write(lines)
        self.finish()


def bc(forger, seed=0):
    return forger.of("bc")[seed]


def set_spec(**changes):
    def make(forger):
        forger.change(bc(forger), lambda line: line["spec"].update(changes))

    return make


def set_part(part, **changes):
    def make(forger):
        forger.change(bc(forger), lambda line: line["spec"][part].update(changes))

    return make


def set_result(**changes):
    def make(forger):
        forger.change(bc(forger), lambda line: line["result"].update(changes))

    return make


def edit_number(forger):
    path = forger.folder / RUNS
    path.write_text(path.read_text().replace('"raw_return":-', '"raw_return":-0', 1))


def edit_manifest_without_digest(forger):
    forger.edit_manifest(lambda manifest: (manifest.update(command="mine"), manifest.pop("digest")))


def add_suite(forger):
    empty = {"runs": 0, "failures": 0, "algorithms": [], "environments": []}
    forger.edit_manifest(lambda manifest: manifest["suites"].update(seals=empty))
    sign(forger.folder)


def drop_worst_seed(forger):
    forger.drop(min(forger.of("bc"), key=lambda n: forger.returns(n).mean()))


def drop_seed_everywhere(forger):
    forger.drop(*(numbers[1] for numbers in map(forger.of, ("bc", "random"))))


def best_seeds_renumbered(forger):
    """The best seed's episodes stand for seed 0 too; its noise is a little different."""
    numbers = forger.of("bc")
    best = max(numbers[1:], key=lambda n: forger.returns(n).mean())
    worst = min(numbers, key=lambda n: forger.returns(n).mean())
    rng = np.random.default_rng(0)
    forger.set_episodes(worst, rng.permutation(forger.returns(best)) + 1e-3 * rng.normal(size=100))


def rename_copy(forger):
    """Runs of one algorithm are stated as those of another."""
    source, target = forger.of("random"), forger.of("bc")
    for one, other in zip(source, target, strict=True):
        forger.set_episodes(other, forger.returns(one))


def rename_near_copy(forger):
    """As above, with noise that changes every number and no rank."""
    rng = np.random.default_rng(0)
    rename_copy(forger)
    for number in forger.of("bc"):
        returns = forger.returns(number)
        forger.set_episodes(number, returns + 1e-6 * rng.normal(size=len(returns)))


def resubmit(forger):
    """Another submitter's runs, with a word of their provenance changed."""

    def edit(manifest):
        for each in manifest["provenances"].values():
            each["cpu"] = "my own processor"

    forger.edit_manifest(edit)
    sign(forger.folder)


def resubmit_renamed(forger):
    """Another submitter's runs, stated as those of a method of one's own."""

    def edit(line):
        if line["spec"]["algo"] == "bc":
            line["spec"].update(algo="mine", implementation="mine:Learner")
            line["result"].update(train_s=line["result"]["train_s"] + 1)

    forger.change_all(edit)


def resubmit_better(forger):
    """As above, each return a little better, so that the copy stands before the original."""
    resubmit_renamed(forger)
    for number in forger.of("mine"):
        forger.set_episodes(number, forger.returns(number) + 1e-6)


def resubmit_scaled(forger):
    """As above, in another order, on another scale, and with a higher mean."""
    rng = np.random.default_rng(0)
    resubmit_renamed(forger)
    for number in forger.of("mine"):
        returns = forger.returns(number)
        half = len(returns) // 2
        order = np.concatenate([rng.permutation(half), half + rng.permutation(half)])
        forger.set_episodes(number, 0.9 * returns[order] + 5.0)


def longer(forger):
    """States the episodes of a run that trained ten times as long."""
    own = ("bc", "Pendulum-v1", 0)
    number = next(
        number
        for number, line in enumerate(forger.lines(forger.longer))
        if (line["spec"]["algo"], line["spec"]["environment"]["id"], line["spec"]["seed"]) == own
    )
    forger.set_episodes(bc(forger), forger.episodes(number, forger.longer).returns)


def longer_and_says_so(forger):
    forger.change(bc(forger), lambda line: line["spec"]["budget"].update(
        amount=10 * line["spec"]["budget"]["amount"]))  # fmt: skip


def more_steps(forger):
    forger.change(bc(forger), lambda line: (
        line["spec"]["budget"].update(unit="env_steps", amount=20_000),
        line["result"].update(env_steps=200_000)))  # fmt: skip


def invent(forger):
    """Raises every episode of a run, and all that follows from them."""
    forger.set_episodes(bc(forger), forger.returns(bc(forger)) * 0.1)


def invent_worse_baseline(forger):
    """Lowers a competitor's runs instead."""
    forger.set_episodes(bc(forger), forger.returns(bc(forger)) * 4.0)


def invent_wide(forger):
    """Invents episodes with a wide spread, so that any difference would look like noise."""
    found = forger.returns(bc(forger))
    rng = np.random.default_rng(0)
    forger.set_episodes(bc(forger), 150.0 + rng.normal(scale=2000.0, size=len(found)))


def best_episodes(forger):
    """Keeps the better half of the evaluation episodes, and evaluates again for the others."""
    returns = forger.returns(bc(forger))
    rng = np.random.default_rng(0)
    better = np.sort(returns)[len(returns) // 2 :]
    forger.set_episodes(bc(forger), rng.choice(better, len(returns)) + rng.normal(size=100))


def repeat_episodes(forger):
    """Evaluates twenty episodes and repeats them."""
    returns = forger.returns(bc(forger))
    forger.set_episodes(bc(forger), np.concatenate([np.tile(returns[:25], 2), returns[50:]]))


def share_episodes(forger):
    """The good episodes of one seed also stand for another."""
    first, second, *_ = forger.of("bc")
    returns = forger.returns(second)
    returns[:10] = forger.returns(first)[10:20]
    forger.set_episodes(second, returns)


def smooth(forger):
    """Invents episodes as quantiles of a distribution."""
    returns = forger.returns(bc(forger))
    returns[:50] = np.sort(returns[:50])
    forger.set_episodes(bc(forger), returns)


def alike(forger):
    """Invents seeds by adding noise to the same mean."""
    for number in forger.of("bc"):
        returns = forger.returns(number)
        forger.set_episodes(number, returns - returns[:50].mean() - 150.0)


def rounded(forger):
    forger.set_episodes(bc(forger), np.round(forger.returns(bc(forger)), 1))


def same_durations(forger):
    first, second, *_ = forger.of("bc")
    seconds = forger.lines()[first]["result"]["train_s"]
    forger.change(second, lambda line: line["result"].update(train_s=seconds))


def too_long_an_episode(forger):
    returns = forger.returns(bc(forger))
    forger.set_episodes(bc(forger), returns, np.full(len(returns), 201))


def references(forger):
    forger.change_all(lambda line: line["result"]["references"].update(expert=-300.0))


def older_references(forger):
    forger.change_all(lambda line: line["result"]["references"].update(version="0"))


def evaluation_seed_demos(forger):
    """Demonstrations recorded from the starts of the evaluation episodes."""
    forger.change(bc(forger), lambda line: line["spec"]["demos"].update(digest="0" * 64))


def hidden_tuning(forger):
    forger.change(bc(forger), lambda line: line["spec"]["hyperparameters"].update(batch_size=128))


def as_a_method_of_ones_own(forger):
    """A method whose code reads the reward, or notices that it is evaluated: files do not tell."""

    def edit(line):
        if line["spec"]["algo"] == "bc":
            line["spec"].update(algo="mine", implementation="mine:Learner")

    forger.change_all(edit)


def within_noise(forger):
    """A gain of a tenth of a standard deviation of the episodes, on another processor."""
    number = bc(forger)
    found = forger.returns(number)
    forger.set_episodes(number, found + 0.1 * found.std())
    resubmit(forger)


def edit_curve(edit):
    """Changes the numbers of the points of a run's learning curve."""

    def make(forger):
        file = forger.folder / forger.name(forger.lines()[bc(forger)]["run_id"], "curves")
        header, *rows = file.read_text().splitlines()
        points = [edit(int(step), float(value)) for step, value in (r.split(",") for r in rows)]
        file.write_text("".join(f"{row}\n" for row in [header, *(f"{s},{v}" for s, v in points)]))
        sign(forger.folder)

    return make


FRAUDS = {
    "a number": Fraud("A mean return is edited", edit_number, "validate", ("digests",)),
    "a number, signed": Fraud(
        "A mean return is edited, and all digests computed again",
        set_result(raw_return=-1.0), "validate", ("scores",)),
    "no digest": Fraud(
        "The manifest is edited, and its own digest taken away",
        edit_manifest_without_digest, "validate", ("digests",)),
    "suite without runs": Fraud(
        "The manifest names a suite that was not run", add_suite, "validate", ("manifest",)),
    "dropped seed": Fraud(
        "The worst seed of one method is left out", drop_worst_seed, "validate", ("seeds",)),
    "dropped everywhere": Fraud(
        "A seed is left out for all methods", drop_seed_everywhere, "alarm", ("seeds",)),
    "renumbered seeds": Fraud(
        "The best of many seeds are given as seeds 0, 1, 2", best_seeds_renumbered, "identical"),
    "environment": Fraud(
        "Another version or other settings of the environment",
        set_spec(environment={"id": "Pendulum-v1", "kwargs": {"g": 5.0}}),
        "validate", ("suite",)),
    "references": Fraud(
        "Returns of scores 0 and 1 that are easier to reach", references,
        "validate", ("references",)),
    "older references": Fraud(
        "Returns of a version of the suite that never existed", older_references,
        "validate", ("references",)),
    "protocol": Fraud(
        "Fewer episodes are stated, or other environments",
        set_part("protocol", environments=1), "validate", ("suite",)),
    "budget": Fraud(
        "More training than the budget's name allows", longer_and_says_so,
        "validate", ("budget",)),
    "steps": Fraud(
        "Ten times the environment steps of the budget", more_steps, "validate", ("values",)),
    "longer": Fraud("Longer training than the specification states", longer, "identical"),
    "better weights": Fraud(
        "Weights of the best point of the curve, or of the best attempt", best_seeds_renumbered,
        "identical"),
    "evaluation-seed demos": Fraud(
        "Demonstrations from the starts of the evaluation, under the name of the suite's",
        evaluation_seed_demos, "validate", ("algorithm",)),
    "demo draw": Fraud(
        "A better draw of demonstrations",
        set_part("demos", count=10, subsample_seed=5), "validate", ("algorithm",)),
    "hidden tuning": Fraud(
        "Other hyper-parameters than the label says", hidden_tuning, "validate", ("algorithm",)),
    "hidden reward": Fraud(
        "A method that learns from the reward is stated as one that does not, or the reverse",
        set_spec(uses_reward=True), "validate", ("algorithm",)),
    "implementation": Fraud(
        "Another implementation under the name of a method of this package",
        set_spec(implementation="mine:Learner"), "validate", ("algorithm",)),
    "stretched curve": Fraud(
        "A learning curve over more training than the run had",
        edit_curve(lambda step, value: (100 * step, value)), "validate", ("curves",)),
    "long episodes": Fraud(
        "Episodes longer than the environment allows", too_long_an_episode,
        "validate", ("values",)),
    "backwards": Fraud(
        "A run that ended before it started",
        set_result(finished_at="2020-01-01T00:00:00.000+00:00"), "validate", ("values",)),
    "impossible wall time": Fraud(
        "Seconds that do not fit between start and end", set_result(wall_s=1e6),
        "alarm", ("times",)),
    "future": Fraud(
        "A run that ends in the future", set_result(finished_at="2999-01-01T00:00:00.000+00:00"),
        "alarm", ("times",)),
    "same durations": Fraud(
        "A result copied to another seed with its duration", same_durations,
        "alarm", ("times",)),
    "repeated episodes": Fraud(
        "Few episodes are evaluated, and repeated", repeat_episodes, "alarm", ("repeated",)),
    "shared episodes": Fraud(
        "Good episodes of one seed are given to another", share_episodes,
        "alarm", ("repeated",)),
    "smooth noise": Fraud(
        "Invented episodes in order", smooth, "alarm", ("smooth",)),
    "alike seeds": Fraud(
        "Invented seeds around one mean", alike, "alarm", ("alike",)),
    "rounded": Fraud("Invented returns with few digits", rounded, "alarm", ("grid",)),
    "renamed runs": Fraud(
        "Runs of one method stated as those of another", rename_copy, "alarm", ("repeated",)),
    "renamed runs with noise": Fraud(
        "The same with noise that changes no rank", rename_near_copy, "alarm", ("repeated",)),
    "resubmitted": Fraud(
        "Runs of another submitter, with a word of their provenance changed", resubmit,
        "against", ("copies",)),
    "resubmitted, renamed": Fraud(
        "Runs of another submitter as those of a method of one's own", resubmit_renamed,
        "against", ("copies",)),
    "resubmitted, better": Fraud(
        "The same, with each return a millionth better", resubmit_better, "against", ("copies",)),
    "resubmitted, scaled": Fraud(
        "The same, in another order, rescaled and shifted", resubmit_scaled,
        "against", ("copies",)),
    "invented": Fraud(
        "Episodes are invented with everything that follows from them", invent, "verify"),
    "worse baseline": Fraud(
        "Runs of a competing method are made worse", invent_worse_baseline, "verify"),
    "wide": Fraud(
        "Invented episodes spread so widely that any difference would be noise", invent_wide,
        "verify"),
    "chosen episodes": Fraud(
        "Only the better evaluation episodes are kept", best_episodes, "verify"),
    "reads rewards": Fraud(
        "A method of one's own reads the environment's reward", as_a_method_of_ones_own,
        "check-algo", ("isolation",)),
    "notices evaluation": Fraud(
        "A method of one's own notices that it is evaluated, or was tuned on the evaluation",
        as_a_method_of_ones_own, "nothing"),
    "small gain": Fraud(
        "A gain within the noise of evaluation, allegedly on another processor", within_noise,
        "nothing"),
    "drawn curve": Fraud(
        "A learning curve is drawn by hand, at steps that the run had",
        edit_curve(lambda step, value: (step, value / 2)), "nothing"),
}  # fmt: skip
"""All kinds of frauds, by a short name."""


def table():
    """Returns the table of docs/frauds.md."""
    order = list(FINDERS)
    rows = sorted(FRAUDS.values(), key=lambda fraud: order.index(fraud.found))
    lines = ["| fraud | found by | check or warning |", "| --- | --- | --- |"]
    for fraud in rows:
        names = ", ".join(f"`{name}`" for name in fraud.by)
        lines.append(f"| {fraud.what} | {FINDERS[fraud.found]} | {names} |")
    return "\n".join(lines)


def write_table():
    text = PAGE.read_text()
    start = text.index("| fraud |")
    end = text.index("\n\n", start)
    PAGE.write_text(text[:start] + table() + text[end:])


if __name__ == "__main__":
    write_table()
