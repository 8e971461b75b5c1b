"""A warning about code of this package fails a test; one about third-party code does not."""

import warnings

import pytest


def warn_about(module, category):
    warnings.warn_explicit("made up", category, filename=f"{module}.py", lineno=1, module=module)


@pytest.mark.parametrize(
    "category", [DeprecationWarning, FutureWarning, ResourceWarning, RuntimeWarning, UserWarning]
)
@pytest.mark.parametrize("module", ["imitbench", "imitbench.bench.worker"])
def test_a_warning_about_our_own_code_is_an_error(module, category):
    with pytest.raises(category):
        warn_about(module, category)


def test_a_warning_about_third_party_code_is_not_an_error():
    with pytest.warns(DeprecationWarning):
        warn_about("somebody.elses", DeprecationWarning)
