"""What the generator's policy takes from the demonstrations, apart from its reward."""

import numpy as np
import pytest
import stable_baselines3
import torch as th

from imitbench.algorithms.adversarial.expert_initialization import ExpertInitialization
from imitbench.algorithms.adversarial.gail import GAIL
from imitbench.data.types import Transitions
from imitbench.policies.base import NormalizeFeaturesExtractor

from .conftest import make_trainer, make_venv, random_transitions

NORMALIZED = {"policy_kwargs": {"features_extractor_class": NormalizeFeaturesExtractor}}
NOISE = 0.2


def expert_transitions(count=2000):
    """Actions that a linear policy draws with a known deviation, of observations far from 0."""
    rng = np.random.default_rng(0)
    obs = rng.normal(3.0, [0.5, 1.0, 2.0], (count + 1, 3)).astype(np.float32)
    acts = 0.3 * (obs[:-1, :1] - 3.0) + rng.normal(0, NOISE, (count, 1))
    return Transitions(
        obs=obs[:-1],
        acts=acts.astype(np.float32),
        infos=np.array([{}] * count),
        next_obs=obs[1:],
        dones=np.arange(count) % 50 == 49,
    )


def started(algorithm=GAIL, *, ppo_options=(), **start):
    venv = make_venv("Pendulum-v1")
    return make_trainer(
        algorithm,
        venv,
        demonstrations=expert_transitions(),
        ppo_options={**NORMALIZED, **dict(ppo_options)},
        start=ExpertInitialization(**start),
    )


def normalizer(trainer):
    return trainer.policy.features_extractor.normalize


def mean_error(trainer):
    data = expert_transitions()
    acts, _ = trainer.policy.predict(data.obs, deterministic=True)
    return float(np.sqrt(np.mean((acts - 0.3 * (data.obs[:, :1] - 3.0)) ** 2)))


def test_statistics_of_the_expert_are_fixed():
    trainer = started(normalizer_source="expert")
    for _ in range(3):
        trainer.train_gen()
        data = expert_transitions()
        np.testing.assert_allclose(normalizer(trainer).running_mean, data.obs.mean(0), rtol=1e-4)
        np.testing.assert_allclose(normalizer(trainer).running_var, data.obs.var(0), rtol=1e-3)


def test_statistics_of_both_are_half_of_each():
    trainer, alone = started(normalizer_source="both"), started()
    for _ in range(4):
        trainer.train_gen()
    # Two of its own for each of the expert's first, and as many after that.
    rollout, epochs = 120, 2
    assert normalizer(trainer).count == rollout + 2 * 4 * rollout * epochs
    alone.train_gen()
    assert normalizer(alone).count == rollout * epochs
    mean, expert = normalizer(trainer).running_mean.numpy(), expert_transitions().obs.mean(0)
    # Pendulum's observations are around 0.
    np.testing.assert_allclose(mean / expert, 0.55, atol=0.2)


def test_the_action_noise_starts_at_the_experts(algorithm):
    trainer = started(algorithm, log_std=True, ppo_options={"learning_rate": 0.0})
    before = {name: each.clone() for name, each in trainer.policy.named_parameters()}
    trainer.train_gen()
    assert trainer.policy.log_std.exp().item() == pytest.approx(NOISE, rel=0.1)
    changed = {name for name, each in trainer.policy.named_parameters()
               if not th.equal(each, before[name])}  # fmt: skip
    assert changed == {"log_std"}


def test_discrete_actions_have_no_noise_to_initialize():
    venv = make_venv()
    trainer = make_trainer(GAIL, venv, start=ExpertInitialization(log_std=True))
    trainer.train_gen()


def test_a_warm_start_clones_the_expert_once():
    trainer = started(batches=800, normalizer_source="expert", ppo_options={"learning_rate": 0.0})
    cold = mean_error(trainer)
    trainer.train_gen()
    warm = mean_error(trainer)
    assert warm < 0.25 * cold
    trainer.train_gen()
    assert mean_error(trainer) == warm


def test_the_critic_is_trained_first_after_a_warm_start():
    trainer = started(batches=300, critic_steps=200, normalizer_source="expert")
    trainer.train_gen()
    kept = mean_error(trainer)
    values = trainer.policy.value_net.weight.clone()
    trainer.train_gen()
    assert mean_error(trainer) == kept
    assert not th.equal(trainer.policy.value_net.weight, values)
    trainer.train_gen()
    assert mean_error(trainer) != kept


def test_a_state_includes_the_warm_start(algorithm):
    options = {
        "batches": 50, "critic_steps": 200, "normalizer_source": "both", "log_std": True,
    }  # fmt: skip
    whole = started(algorithm, **options)
    whole.train(2 * 120)
    state = whole.state_dict()
    other = started(algorithm, **options)
    other.load_state_dict(state)
    for name, value in whole.policy.state_dict().items():
        assert th.equal(other.policy.state_dict()[name], value), name
    assert other._rng.bit_generator.state == whole._rng.bit_generator.state
    other._start.before_round()
    whole._start.before_round()
    assert other.gen_algo.critic_only is whole.gen_algo.critic_only is False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalizer_source": "env"}, "must be agent, expert or both, not 'env'"),
        ({"batches": -1}, "batches must be at least 0"),
        ({"critic_steps": -1}, "critic_steps must be at least 0"),
    ],
)
def test_an_invalid_start_is_reported(options, message):
    with pytest.raises(ValueError, match=message):
        ExpertInitialization(**options)


def test_a_generator_without_support_is_reported():
    with pytest.raises(ValueError, match=r"needs a generator of imitbench.rl.ppo.PPO, not PPO"):
        make_trainer(GAIL, ppo=stable_baselines3.PPO, start=ExpertInitialization(log_std=True))
    with pytest.raises(ValueError, match="make it with features_extractor_class="):
        make_trainer(GAIL, start=ExpertInitialization(normalizer_source="expert"))


def test_demonstrations_given_as_batches_are_reported():
    venv = make_venv()
    data = random_transitions(venv, 64)
    batches = [{name: getattr(data[part], name) for name in ("obs", "acts", "next_obs", "dones")}
               for part in (slice(32), slice(32, 64))]  # fmt: skip
    trainer = make_trainer(
        GAIL, venv, demonstrations=batches, start=ExpertInitialization(batches=1)
    )
    with pytest.raises(ValueError, match="needs demonstrations as trajectories or transitions"):
        trainer.train_gen()
