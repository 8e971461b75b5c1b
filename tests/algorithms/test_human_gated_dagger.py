"""DAgger with a person: what is learned from, what is counted, and when it ends."""

import numpy as np
import pytest
import torch as th
from support.dagger import Corridor, corridor, quiet_logger

from imitbench.algorithms.bc import BC
from imitbench.algorithms.dagger_storage import read_demos
from imitbench.algorithms.gated_dagger import QueryCounts
from imitbench.algorithms.human_gated_dagger import HumanGatedDAgger, SharedEpisode
from imitbench.data.types import TrajectoryWithRew
from imitbench.util.state_file import load_state, save_state

ROUND = {
    "rollout_round_min_episodes": 2,
    "rollout_round_min_timesteps": 40,
    "bc_train_kwargs": {"n_epochs": 2, "progress_bar": False, "log_rollouts_venv": None},
}


class Scripted:
    """Acts in the corridor while the place is further from 0 than a limit."""

    finished = False

    def __init__(self, limit=1.0, rounds=99):
        self.limit, self.rounds, self.requests = limit, rounds, []

    def take_turns(self, request, check_stop):
        check_stop()
        self.requests.append(request)
        if request.number >= self.rounds:
            self.finished = True
            return []
        return [self._episode(seed) for seed in range(request.min_episodes)]

    def _episode(self, seed):
        env, act = Corridor(), self.requests[-1].act
        obs, acts, by_person, done = [env.reset(seed=seed)[0]], [], [], False
        while not done:
            by_person.append(act is None or abs(obs[-1][0]) > self.limit)
            acts.append(np.int64(obs[-1][0] < 0) if by_person[-1] else act(obs[-1]))
            fresh, _, _, done, _ = env.step(acts[-1])
            obs.append(fresh)
        whole = TrajectoryWithRew(np.stack(obs), np.array(acts), None, False, np.zeros(len(acts)))
        return SharedEpisode(whole, np.array(by_person))


def make(folder, person, check_stop=lambda: None):
    th.manual_seed(0)
    venv, rng = corridor(), np.random.default_rng(0)
    return HumanGatedDAgger(
        person=person,
        check_stop=check_stop,
        venv=venv,
        scratch_dir=folder,
        rng=rng,
        bc_trainer=BC(
            observation_space=venv.observation_space,
            action_space=venv.action_space,
            rng=rng,
            batch_size=16,
            device="cpu",
            custom_logger=quiet_logger(),
        ),
        custom_logger=quiet_logger(),
    )


def shared(by_person, terminal=False):
    steps = len(by_person)
    obs, acts = np.arange(steps + 1.0)[:, None], np.arange(steps)
    whole = TrajectoryWithRew(obs, acts, None, terminal, np.zeros(steps))
    return SharedEpisode(whole, np.array(by_person, dtype=bool))


@pytest.mark.parametrize(
    ("by_person", "parts"),
    [
        ([0, 0, 0], []),
        ([1, 1, 1], [(0, 3)]),
        ([1, 0, 1], [(0, 1), (2, 3)]),
        ([0, 1, 1, 0, 0, 1, 0], [(1, 3), (5, 6)]),
    ],
)
def test_the_parts_of_the_person_are_cut_out(by_person, parts):
    episode = shared(by_person, terminal=True)
    cut = episode.person_parts
    assert [(part.acts[0], part.acts[-1] + 1) for part in cut] == parts
    assert [(part.obs[0, 0], part.obs[-1, 0]) for part in cut] == parts
    # Only the last observation of the episode is an end.
    assert [part.terminal for part in cut] == [end == len(by_person) for _, end in parts]
    steps = sum(by_person)
    assert episode.counts == QueryCounts(len(by_person), steps, steps, len(parts))


def test_the_person_acts_alone_at_first_and_only_their_actions_are_learned_from(tmp_path):
    person = Scripted(limit=0.15)
    trainer = make(tmp_path, person)
    first, second = trainer.train_round(**ROUND), trainer.train_round(**ROUND)
    assert [request.act is None for request in person.requests] == [True, False]
    assert (first.beta, first.counts) == (1.0, QueryCounts(40, 40, 40, 2))
    assert 0 < second.beta < 1
    assert trainer.counts == first.counts + second.counts
    learned = [part for number in range(2) for part in read_demos(trainer.round_folder(number))]
    assert sum(map(len, learned)) == trainer.counts.queries
    for part in learned:  # the person's rule, which the policy has not learned perfectly
        np.testing.assert_array_equal(part.acts, part.obs[:-1, 0] < 0)


def test_a_round_without_a_takeover_ends_without_training(tmp_path):
    trainer = make(tmp_path, Scripted(limit=99.0))
    trainer.train_round(**ROUND)
    before = [parameter.clone() for parameter in trainer.policy.parameters()]
    collected = trainer.train_round(**ROUND)
    assert (collected.beta, trainer.round_num) == (0.0, 2)
    assert all(th.equal(*pair) for pair in zip(before, trainer.policy.parameters(), strict=True))
    assert trainer.train_round(**ROUND).number == 2


def test_no_episodes_mean_that_the_person_has_finished(tmp_path):
    trainer = make(tmp_path, Scripted(rounds=1))
    trainer.train_round(**ROUND)
    collected = trainer.train_round(**ROUND)
    assert (collected.env_steps, list(collected.trajectories), trainer.round_num) == (0, [], 1)


def test_a_saved_training_goes_on_bit_for_bit(tmp_path):
    straight = make(tmp_path / "straight", Scripted(limit=0.15))
    for _ in range(3):
        straight.train_round(**ROUND)
    first = make(tmp_path / "first", Scripted(limit=0.15))
    first.train_round(**ROUND)
    save_state(tmp_path / "state.pt", first.state_dict())
    again = make(tmp_path / "again", Scripted(limit=0.15))
    again.load_state_dict(load_state(tmp_path / "state.pt"))
    for _ in range(2):
        again.train_round(**ROUND)
    pairs = zip(straight.policy.parameters(), again.policy.parameters(), strict=True)
    assert all(th.equal(*pair) for pair in pairs)
    assert again.counts == straight.counts


def test_a_request_to_stop_ends_the_waiting(tmp_path):
    class StopError(Exception):
        pass

    def stop():
        raise StopError

    with pytest.raises(StopError):
        make(tmp_path, Scripted(), stop).train_round(**ROUND)
