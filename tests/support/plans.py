"""Plans of single calls, as commands make them from requests."""

from imitbench.bench.plan import plan_request
from imitbench.store.sweep_file import SweepRequest


def request_of(algorithms=(), suite="classic", environment=None, seeds=(), folder=".", **settings):
    """Returns a request with names."""
    return SweepRequest(
        algorithms=list(algorithms),
        suite=suite,
        environment=environment,
        seeds=list(seeds),
        folder=str(folder),
        **settings,
    )


def make_plan(
    algorithms, suite="classic", environment=None, seeds=(0,), *, notify=lambda _: None, **settings
):
    """Plans algorithms and a suite, given as names or cards."""
    names = [getattr(each, "name", each) for each in algorithms]
    request = request_of(names, getattr(suite, "name", suite), environment, seeds, **settings)
    return plan_request(
        request,
        notify,
        algorithms=None if names == list(algorithms) else algorithms,
        suite=None if isinstance(suite, str) else suite,
    )
