"""What a message suggests for a name that is not accepted."""

import pytest

from imitbench.cards.catalog import load_suite, select_environments
from imitbench.errors import InputError, did_you_mean, nearest

ENVIRONMENTS = ["seals/CartPole-v0", "seals/HalfCheetah-v1", "Pendulum-v1"]


@pytest.mark.parametrize(
    ("wrong", "accepted", "meant"),
    [
        ("BC", ["airl", "bc", "gail"], "bc"),
        ("Gail", ["airl", "bc", "gail"], "gail"),
        ("lr", ["batch_size", "l2_weight", "learning_rate"], "learning_rate"),
        ("HalfCheetah-v4", ENVIRONMENTS, "seals/HalfCheetah-v1"),
        ("pendulum-v0", ENVIRONMENTS, "Pendulum-v1"),
        ("hiden_size", ["hidden_layers", "hidden_size"], "hidden_size"),
        ("xyz", ["airl", "bc"], None),
        ("", ["bc"], None),
    ],
)
def test_the_name_that_was_meant_is_suggested(wrong, accepted, meant):
    assert nearest(wrong, accepted) == meant
    said = f"did you mean '{meant}'? " if meant else ""
    assert did_you_mean(wrong, accepted) == f"{said}Accepted: {', '.join(sorted(accepted))}"


def test_another_version_of_an_environment_is_found_in_other_suites():
    said = r"did you mean 'HalfCheetah-v5' of --suite mujoco\?"
    with pytest.raises(InputError, match=said):
        select_environments(load_suite("classic"), "HalfCheetah-v4")
