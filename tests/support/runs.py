"""Specifications for synthetic run directories."""

from imitbench.records.runs import Budget, EnvironmentSpec, RunSpec


def make_spec(seed=0, algo="bc", env="Pendulum-v1", variant="", **changes):
    fields = {
        "suite": "classic",
        "algo": algo,
        "implementation": "a:B",
        "environment": EnvironmentSpec(id=env),
        "seed": seed,
        "budget": Budget(name="quick", unit="batches", amount=10),
        "variant": variant,
        "hyperparameters": {"variant": variant},
    }
    return RunSpec(**fields | changes)
