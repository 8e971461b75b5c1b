"""GAIL and AIRL of several seeds train each as it would be trained alone."""

import copy

import pytest
import stable_baselines3

from imitbench.algorithms.adversarial.packed import AdversarialPack
from imitbench.rl.packed_ppo import OwnGenerators

from .conftest import make_trainer, make_venv

SEEDS = (4, 7)
ROUND = 120
OPTIONS = {"allow_variable_horizon": True, "gen_history_share": 0.5}


def all_environments():
    venv = make_venv(count=2 * len(SEEDS))
    for number, seed in enumerate(SEEDS):
        for index in range(2):
            venv._seeds[2 * number + index] = seed + index
    return venv


def make_pack(algorithm, venv=None):
    trainers, randomness = [], []
    for seed in SEEDS:
        trainers.append(make_trainer(algorithm, make_venv(seed=seed), seed=seed, **OPTIONS))
        randomness.append(OwnGenerators())
    return AdversarialPack(trainers, venv or all_environments(), randomness)


def weights_of(trainer):
    nets = trainer.reward_train.state_dict(), trainer.policy.state_dict()
    return [value.clone() for net in nets for value in net.values()]


def test_first_round_is_that_of_each_seed_alone(algorithm):
    pack = make_pack(algorithm)
    found = pack.train_round(ROUND)
    for own, updates, seed in zip(pack.trainers, found, SEEDS, strict=True):
        alone = make_trainer(algorithm, make_venv(seed=seed), seed=seed, **OPTIONS)
        alone.train_gen(ROUND)
        for update in updates:
            assert update == pytest.approx(alone.train_disc(), rel=1e-4)
        for mine, due in zip(weights_of(own), weights_of(alone), strict=True):
            assert mine.allclose(due, rtol=1e-4, atol=1e-5)


def test_a_restored_pack_continues_bit_for_bit(algorithm):
    pack = make_pack(algorithm)
    pack.train_round(ROUND)
    state = copy.deepcopy(pack.state_dict())
    environments = copy.deepcopy(pack.venv)
    pack.train_round(ROUND)
    other = make_pack(algorithm, environments)
    other.load_state_dict(state)
    other.train_round(ROUND)
    for mine, due in zip(other.trainers, pack.trainers, strict=True):
        assert all(a.equal(b) for a, b in zip(weights_of(mine), weights_of(due), strict=True))


def test_another_ppo_is_refused(algorithm):
    trainers = [make_trainer(algorithm, ppo=stable_baselines3.PPO) for _ in SEEDS]
    with pytest.raises(ValueError, match=r"gen_algo must be imitbench\.rl\.ppo\.PPO"):
        AdversarialPack(trainers, make_venv(count=4), [OwnGenerators() for _ in SEEDS])
