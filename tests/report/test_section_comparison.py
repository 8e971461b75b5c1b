"""Which algorithms of a section are compared, and over what."""

import numpy as np
import pytest

from imitbench.report.section_comparison import compare_section
from imitbench.report.tables import build_report


def compared(rows, **options):
    report = build_report(rows, [], [], replicates=200, **options)
    (section,) = report.sections
    return compare_section(section, report.method)


def test_anchors_are_not_compared_and_profiles_are_over_common_environments(rows):
    found = compared(rows)
    assert found.algorithms == ("bc", "gail")
    assert found.environments == ("CartPole", "Pendulum")
    assert set(found.profiles) == {"bc", "gail"}


def test_a_profile_is_the_share_of_runs_above_each_score(make_score):
    rows = [make_score("bc", "CartPole", seed, 20 + 480 * s) for seed, s in enumerate((0.2, 0.6))]
    band = compared(rows).profiles["bc"]
    assert np.interp([0.1, 0.4, 0.8], band.at, band.values) == pytest.approx([1, 0.5, 0])


def test_the_better_algorithm_probably_improves_on_the_other(rows):
    pair = compared(rows).improvement.of("bc", "gail")
    assert pair.probability.point > 0.5
    assert pair.coverage.environments == ("CartPole", "Pendulum")


def test_one_algorithm_has_a_profile_and_nothing_to_improve_on(make_score):
    found = compared([make_score("bc", "CartPole", 0, 100.0)])
    assert found.improvement is None
    assert not found.profiles["bc"].known


def test_scores_that_are_not_finite_are_excluded(make_score):
    rows = [make_score("bc", "CartPole", seed, 100.0) for seed in range(2)]
    rows.append(make_score("gail", "CartPole", 0, float("nan")))
    assert compared(rows).algorithms == ("bc",)
    assert compared(rows[2:]) is None
