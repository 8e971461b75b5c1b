"""Updates that are recorded once and repeated."""

import numpy as np
import pytest
import torch as th
from support.off_policy import DISCRETE, METHODS, vectors

from imitbench.algorithms.off_policy.adril import AdRIL
from imitbench.algorithms.off_policy.agent import AgentOptions, SoftActorCritic
from imitbench.algorithms.off_policy.hype import HyPE
from imitbench.algorithms.off_policy.iq_learn import IQLearn
from imitbench.algorithms.off_policy.randomness import SeedStreams

NO_GPU = pytest.mark.skipif(not th.cuda.is_available(), reason="torch finds no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]
CASES = [(method, "Pendulum-v1", {}) for method in METHODS] + [
    *((method, "seals/CartPole-v0", {}) for method in DISCRETE),
    (HyPE, "Pendulum-v1", {"reward_interval": 3}),  # two kinds of updates
    (AdRIL, "Pendulum-v1", {"round_steps": 20}),  # more kinds than are kept
    (IQLearn, "Pendulum-v1", {"value_loss": "initial"}),  # draws initial states, too
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("method", "env", "settings"), CASES)
def test_recorded_updates_are_those_that_are_not(
    method, env, settings, device, make, pendulum_demos, cartpole_demos
):
    demos = pendulum_demos if env.startswith("Pendulum") else cartpole_demos
    trained = []
    for recording in (False, True):
        trainer = make(method, env, demos, seeds=(3, 4), device=device, **settings)
        trainer.streams.recording = recording
        trained.append((trainer, trainer.train(35), trainer.train(30)))
    (plain, *logged), (recorded, *again) = trained
    assert plain.n_updates == recorded.n_updates > 40
    for one, other in zip(vectors(plain), vectors(recorded), strict=True):
        assert th.equal(one, other)
    assert logged == again


@pytest.mark.parametrize("device", DEVICES)
def test_a_resumed_training_is_recorded_anew(device, make, pendulum_demos):
    def trainer():
        made = make(HyPE, "Pendulum-v1", pendulum_demos, device=device)
        made.streams.recording = True
        return made

    whole, again = trainer(), trainer()
    whole.train(40)
    again.train(30)  # has recordings, of an optimizer's state that the next line replaces
    again.load_state_dict(whole.state_dict())
    for each in (whole, again):
        each.venv.seed(7)
        each.venv.reset()
        each.train(30)
    for one, other in zip(vectors(whole), vectors(again), strict=True):
        assert th.equal(one, other)
    assert whole.num_timesteps == again.num_timesteps == 70


def test_every_call_draws_anew_and_as_without_a_recording():
    streams, same = SeedStreams([5, 6]), SeedStreams([5, 6])
    streams.recording = True
    call = streams.recorded(lambda: (streams.normal(3, 2) + 1, streams.uniform(4)))
    for _ in range(6):
        normal, uniform = call()
        assert th.equal(normal, same.normal(3, 2) + 1)
        assert th.equal(uniform, same.uniform(4))


def test_values_of_any_type_and_length_are_given_to_recordings():
    streams = SeedStreams([0])
    streams.recording = True
    now = {"flags": np.zeros(3, bool), "numbers": np.zeros(5, np.int64)}

    def read():
        return [
            streams.given(lambda host, each=each: host.copy_(th.from_numpy(now[each])), shape, kind)
            for each, shape, kind in (("flags", (3,), th.bool), ("numbers", (5,), th.int64))
        ]

    call = streams.recorded(read)
    for step in range(5):
        now |= {"flags": np.arange(3) < step, "numbers": np.arange(5) * step}
        flags, numbers = call()
        assert flags.tolist() == [each < step for each in range(3)]
        assert numbers.tolist() == [each * step for each in range(5)]


def test_a_recording_that_fails_leaves_the_streams_as_they_were():
    streams = SeedStreams([0])
    streams.recording = True
    with pytest.raises(ZeroDivisionError):
        streams.recorded(lambda: 1 / 0)()
    assert streams.normal(2).shape == (1, 2)


@NO_GPU
def test_a_gpu_draws_what_the_cpu_draws_and_acts_alike():
    options = AgentOptions(hidden_sizes=(16,))
    agents = [SoftActorCritic(3, 2, options, SeedStreams([1, 2], each)) for each in ("cpu", "cuda")]
    obs = th.linspace(-1, 1, 24).view(2, 4, 3)
    cpu, gpu = (agent.act(obs.to(agent.streams.device)).cpu() for agent in agents)
    th.testing.assert_close(cpu, gpu, atol=1e-5, rtol=1e-4)


@NO_GPU
@pytest.mark.parametrize("method", METHODS)
def test_a_gpu_learns_what_the_cpu_learns(method, make, pendulum_demos):
    cpu, gpu = (
        make(method, "Pendulum-v1", pendulum_demos, seeds=(3, 4), device=device)
        for device in ("cpu", "cuda")
    )
    for trainer in (cpu, gpu):
        trainer.train(60)
    for one, other in zip(vectors(cpu), vectors(gpu), strict=True):
        th.testing.assert_close(one, other.cpu(), atol=1e-4, rtol=1e-3)
    assert gpu.n_updates > 30
