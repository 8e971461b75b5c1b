"""Details of single runs from the database, in addition to their scores."""

import itertools

import pytest
from support.shown_results import EPISODES, PROVENANCE, write_results

from imitbench.store import database, run_details
from imitbench.store.collector import collect
from imitbench.store.run_details import read_details, read_episodes

SKILLS = {"bc": ((0.9, 0.1),) * 3}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    write_results(out, seeds=2, skills=SKILLS, failing=[("bc", "Pendulum-v1", 1)])
    collect(out)
    return out


def read(results):
    with database.reader(results) as connection:
        return database.read_scores(connection), read_details(connection)


def test_every_completed_run_has_its_setup_origin_and_outcome(results):
    scores, details = read(results)
    assert set(details.runs) == {row.run_id for row in scores}
    for row in scores:
        run = details.runs[row.run_id]
        assert run.spec.run_id == row.run_id
        assert run.provenance == PROVENANCE
        assert (run.train_s, run.termination_rate) == (10.0 + row.seed, 0.0)
        assert run.started_at == "2026-01-01T00:00:00.000+00:00"


def test_short_curves_are_complete(results):
    scores, details = read(results)
    for row in scores:
        curves = details.curves[row.run_id]
        assert set(curves) == {"loss", "rollout/return_mean"}
        for curve in curves.values():
            assert len(curve.steps) == len(curve.values) == curve.points == 40
            assert list(curve.steps) == sorted(set(curve.steps))


@pytest.mark.parametrize("keep", [2, 3, 7, 39])
def test_long_curves_are_thinned_evenly_and_keep_both_ends(results, keep, monkeypatch):
    scores, whole = read(results)
    monkeypatch.setattr(run_details, "MAX_POINTS", keep * 2 * len(scores))
    _, thinned = read(results)
    for run_id, curves in whole.curves.items():
        for metric, curve in curves.items():
            part = thinned.curves[run_id][metric]
            places = [curve.steps.index(step) for step in part.steps]
            assert len(places) == keep
            assert (places[0], places[-1]) == (0, 39)
            gaps = {after - before for before, after in itertools.pairwise(places)}
            assert max(gaps) - min(gaps) <= 1
            assert part.values == tuple(curve.values[place] for place in places)
            assert part.points == 40


def test_the_number_of_episodes_is_known_if_all_runs_agree(results, tmp_path):
    with database.reader(results) as connection:
        ids = [row.run_id for row in database.read_scores(connection)]
        assert read_episodes(connection, ids) == EPISODES
        assert read_episodes(connection, []) is None
