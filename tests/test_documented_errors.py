"""Each error that the reference documents is caught here by the same `except`.

The table has every function with every type of error of the reference's API documentation; a test
compares it with the texts where they are at hand. Below it stand errors that only the reference's
source shows, and those that follow from what it calls.
"""

import dataclasses
import sys

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter
from support.preference_pairs import (
    ACT_SPACE,
    OBS_SPACE,
    fragment,
    linear_ensemble,
    pairs_of,
    perceptron,
    quiet_logger,
)
from support.reference_texts import documented_errors, reference_text
from support.tabular import small_model

from imitbench.algorithms import base, bc, dagger, mce_irl, sqil
from imitbench.algorithms import preference_comparisons as pc
from imitbench.algorithms.adversarial.airl import AIRL
from imitbench.algorithms.adversarial.gail import GAIL
from imitbench.data import buffer, huggingface_utils, rollout, serialize, types
from imitbench.data.wrappers import BufferingWrapper
from imitbench.errors import InputError
from imitbench.policies.base import RandomPolicy
from imitbench.policies.serialize import (
    load_policy,
    load_stable_baselines_model,
)
from imitbench.regularization.regularizers import LpRegularizer
from imitbench.regularization.updaters import ConstantParamScaler, IntervalParamScaler
from imitbench.rewards import reward_nets
from imitbench.rewards.serialize import load_reward
from imitbench.rewards.storage import save_reward
from imitbench.testing.expert_trajectories import make_expert_transition_loader
from imitbench.util import networks, registry, util
from imitbench.util.logger import WandbOutputFormat

IMAGE = spaces.Box(0, 255, (8, 8, 3), np.uint8)
REMOVED = {("util.sacred.filter_subdirs", "ValueError")}
"""Names that `docs/differences.md` lists as missing."""


class Bed:
    """What the calls below need, made on demand."""

    def __init__(self, folder):
        self.folder = folder
        self.rng = np.random.default_rng(0)
        self.venv = DummyVecEnv([Counter, Counter])
        self.space, self.actions = self.venv.observation_space, self.venv.action_space
        self.log = quiet_logger(folder / "log")

    def episodes(self, n=4):
        enough = rollout.make_sample_until(min_episodes=n)
        policy = RandomPolicy(self.space, self.actions)
        return rollout.rollout(policy, self.venv, enough, rng=self.rng, unwrap=False)

    def transitions(self):
        return rollout.flatten_trajectories_with_rew(self.episodes())

    def ppo(self):
        return sb3.PPO("MlpPolicy", self.venv, n_steps=8, batch_size=8, device="cpu")

    def net(self):
        return reward_nets.BasicRewardNet(self.space, self.actions)

    def bc(self, **options):
        return bc.BC(
            observation_space=self.space, action_space=self.actions, rng=self.rng, **options
        )

    def adversarial(self, kind=GAIL, gen_algo=None, **options):
        return kind(
            demonstrations=self.transitions(),
            venv=self.venv,
            gen_algo=gen_algo or self.ppo(),
            reward_net=self.net(),
            custom_logger=self.log,
            **{"demo_batch_size": 8, **options},
        )

    def dqn(self):
        return sb3.DQN("MlpPolicy", self.venv, buffer_size=10, device="cpu")

    def dagger_with_other_spaces(self):
        expert = RandomPolicy(spaces.Box(-1, 1, (7,)), self.actions)
        dagger.SimpleDAggerTrainer(
            venv=self.venv,
            scratch_dir=self.folder,
            expert_policy=expert,
            rng=self.rng,
            bc_trainer=self.bc(),
        )

    def endless(self):
        model = small_model(deterministic=True)
        model.horizon = None
        return model

    def mce_irl(self):
        model = self.endless()
        net = reward_nets.BasicRewardNet(model.observation_space, model.action_space)
        mce_irl.MCEIRL(None, model, net, rng=self.rng)

    def agent(self):
        return pc.AgentTrainer(self.ppo(), self.net(), self.venv, self.rng, custom_logger=self.log)

    def train_agent_with_steps_left(self):
        agent = self.agent()
        agent.buffering_wrapper.reset()
        agent.buffering_wrapper.step(np.zeros(2, int))
        agent.train(16)

    def comparisons(self, **options):
        return pc.PreferenceComparisons(self.agent(), self.net(), 2, rng=self.rng, **options)

    def ensemble_under_a_wrapper(self):
        net = reward_nets.NormalizedRewardNet(linear_ensemble([1, 0, 0], [0, 1, 0]), th.nn.Identity)
        pc.PreferenceModel(net)

    def active(self, model, **options):
        return pc.ActiveSelectionFragmenter(
            pc.PreferenceModel(model), pc.RandomFragmenter(self.rng), 2.0, **options
        )

    def trainer(self, kind=pc.BasicRewardTrainer, **options):
        model = pc.PreferenceModel(perceptron())
        return kind(model, pc.CrossEntropyRewardLoss(), self.rng, **options)

    def push(self, preferences):
        pc.PreferenceDataset().push(pairs_of(self.rng, [4, 4]), preferences)

    def dataset(self):
        dataset = pc.PreferenceDataset()
        dataset.push(pairs_of(self.rng, [4, 4]), np.ones(2, np.float32))
        return dataset

    def buffer(self):
        return buffer.Buffer(3, sample_shapes={"a": (2,)}, dtypes={"a": np.dtype(float)})

    def store(self, rows, **options):
        self.buffer().store({"a": np.zeros(rows)}, **options)

    def replay_buffer(self, **options):
        return buffer.ReplayBuffer(3, **options)

    def store_unequal(self):
        replay = self.replay_buffer(venv=self.venv)
        transitions = self.transitions()
        object.__setattr__(transitions, "acts", transitions.acts[1:])
        replay.store(transitions)

    def mixed_trajectories(self):
        [with_rewards, other] = self.episodes(2)[:2]
        fields = {f.name: getattr(other, f.name) for f in dataclasses.fields(types.Trajectory)}
        huggingface_utils.trajectories_to_dict([with_rewards, types.Trajectory(**fields)])

    def model(self, *, normalized=False):
        self.ppo().save(self.folder / "model.zip")
        if normalized:
            (self.folder / "vec_normalize.pkl").write_bytes(b"")
        load_stable_baselines_model(sb3.PPO, str(self.folder), self.venv)

    def regularizer(self, **options):
        optimizer = th.optim.SGD([th.nn.Parameter(th.ones(1))], lr=0.1)
        defaults = {"initial_lambda": 1.0, "lambda_updater": None, "val_split": None}
        LpRegularizer(optimizer=optimizer, logger=self.log, p=2, **(defaults | options))

    def means(self, inner):
        with self.log.accumulate_means("gen"), inner(self.log):
            pass

    def wandb_that_is_absent(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "wandb", None)
            WandbOutputFormat()

    def reward_folder(self):
        save_reward(self.net(), self.folder)
        return self.folder


def parsed(name, error, *calls):
    """The cases of one function and error; each call takes a `Bed`."""
    many = len(calls) > 1
    return [
        pytest.param(error, call, id=f"{name}-{error.__name__}" + f"-{number}" * many)
        for number, call in enumerate(calls)
    ]


_DOCUMENTED = {
    ("algorithms.base.make_data_loader", ValueError): [
        lambda _: list(base.make_data_loader([{"obs": np.zeros(3), "acts": np.zeros(3)}], 2)),
        lambda bed: base.make_data_loader(bed.transitions(), 1000),
        lambda bed: base.make_data_loader(bed.episodes(), 1000),
    ],
    ("algorithms.base.make_data_loader", TypeError): [lambda _: base.make_data_loader(7, 2)],
    ("algorithms.bc.BC.__init__", ValueError): [
        lambda bed: bed.bc(optimizer_kwargs={"weight_decay": 1e-4}),
        lambda bed: bed.bc(batch_size=10, minibatch_size=3),
    ],
    ("algorithms.dagger.ExponentialBetaSchedule.__init__", ValueError): [
        lambda _: dagger.ExponentialBetaSchedule(0.0),
        lambda _: dagger.ExponentialBetaSchedule(1.1),
    ],
    ("algorithms.dagger.SimpleDAggerTrainer.__init__", ValueError): [Bed.dagger_with_other_spaces],
    ("algorithms.adversarial.common.AdversarialTrainer.__init__", ValueError): [
        lambda bed: bed.adversarial(demo_minibatch_size=3),
    ],
    ("algorithms.adversarial.airl.AIRL.__init__", TypeError): [
        lambda bed: bed.adversarial(AIRL, bed.dqn()),
    ],
    ("algorithms.adversarial.airl.AIRL.logits_expert_is_high", TypeError): [
        lambda bed: bed.adversarial(AIRL).logits_expert_is_high(
            th.zeros(1, 2), th.zeros(1, 3), th.zeros(1, 2), th.zeros(1), None
        ),
    ],
    ("algorithms.mce_irl.MCEIRL.__init__", ValueError): [Bed.mce_irl],
    ("algorithms.mce_irl.mce_occupancy_measures", ValueError): [
        lambda bed: mce_irl.mce_occupancy_measures(bed.endless()),
    ],
    ("algorithms.mce_irl.mce_partition_fh", ValueError): [
        lambda bed: mce_irl.mce_partition_fh(bed.endless()),
    ],
    ("algorithms.preference_comparisons.ActiveSelectionFragmenter.__init__", ValueError): [
        lambda bed: bed.active(perceptron()),
        lambda bed: bed.active(linear_ensemble([1, 0, 0], [0, 1, 0]), uncertainty_on="reward"),
    ],
    ("algorithms.preference_comparisons.AgentTrainer.train", RuntimeError): [
        Bed.train_agent_with_steps_left,
    ],
    ("algorithms.preference_comparisons.BasicRewardTrainer.__init__", ValueError): [
        lambda bed: bed.trainer(batch_size=10, minibatch_size=3),
    ],
    ("algorithms.preference_comparisons.EnsembleTrainer.__init__", TypeError): [
        lambda bed: bed.trainer(pc.EnsembleTrainer),
    ],
    ("algorithms.preference_comparisons.PreferenceComparisons.__init__", ValueError): [
        lambda bed: bed.comparisons(query_schedule="often"),
        lambda bed: bed.comparisons(query_schedule=3),
    ],
    ("algorithms.preference_comparisons.PreferenceDataset.push", ValueError): [
        lambda bed: bed.push(np.zeros(3, np.float32)),
        lambda bed: bed.push(np.zeros(2, np.float64)),
    ],
    ("algorithms.preference_comparisons.PreferenceModel.__init__", ValueError): [
        Bed.ensemble_under_a_wrapper,
    ],
    ("algorithms.preference_comparisons.SyntheticGatherer.__init__", ValueError): [
        lambda _: pc.SyntheticGatherer(sample=True),
    ],
    ("data.buffer.Buffer.__init__", KeyError): [
        lambda _: buffer.Buffer(3, {"a": (1,)}, {"b": np.dtype(float)}),
    ],
    ("data.buffer.Buffer.from_data", ValueError): [
        lambda _: buffer.Buffer.from_data({}),
        lambda _: buffer.Buffer.from_data({"a": np.zeros(2), "b": np.zeros(3)}),
    ],
    ("data.buffer.Buffer.sample", ValueError): [lambda bed: bed.buffer().sample(1)],
    ("data.buffer.Buffer.store", ValueError): [
        lambda bed: bed.store((0, 2)),
        lambda bed: bed.store((9, 2)),
        lambda bed: bed.store((1, 5)),
    ],
    ("data.buffer.ReplayBuffer.__init__", ValueError): [
        lambda bed: bed.replay_buffer(obs_shape=(2,)),
        lambda bed: bed.replay_buffer(venv=bed.venv, obs_shape=(2,)),
    ],
    ("data.buffer.ReplayBuffer.store", ValueError): [Bed.store_unequal],
    ("data.buffer.num_samples", ValueError): [
        lambda _: buffer.num_samples({"a": np.zeros(2), "b": np.zeros(3)}),
    ],
    ("data.huggingface_utils.trajectories_to_dict", ValueError): [Bed.mixed_trajectories],
    ("data.rollout.make_sample_until", ValueError): [
        lambda _: rollout.make_sample_until(),
        lambda _: rollout.make_sample_until(min_timesteps=0),
        lambda _: rollout.make_sample_until(min_episodes=-1),
    ],
    ("data.rollout.unwrap_traj", ValueError): [
        lambda bed: rollout.unwrap_traj(dataclasses.replace(bed.episodes()[0], infos=None)),
    ],
    ("data.wrappers.BufferingWrapper.pop_transitions", RuntimeError): [
        lambda bed: BufferingWrapper(bed.venv).pop_transitions(),
    ],
    ("policies.serialize.load_stable_baselines_model", FileNotFoundError): [
        lambda bed: load_stable_baselines_model(sb3.PPO, str(bed.folder), bed.venv),
        lambda bed: load_stable_baselines_model(sb3.PPO, str(bed.folder / "absent"), bed.venv),
    ],
    ("policies.serialize.load_stable_baselines_model", FileExistsError): [
        lambda bed: bed.model(normalized=True),
    ],
    ("regularization.regularizers.Regularizer.__init__", ValueError): [
        lambda bed: bed.regularizer(initial_lambda=0.0),
        lambda bed: bed.regularizer(lambda_updater=ConstantParamScaler(), val_split=2.0),
        lambda bed: bed.regularizer(lambda_updater=ConstantParamScaler()),
        lambda bed: bed.regularizer(val_split=0.1),
    ],
    ("regularization.updaters.IntervalParamScaler.__init__", ValueError): [
        lambda _: IntervalParamScaler(0.1, (0.0, 0.1, 0.2)),
        lambda _: IntervalParamScaler(1.5, (0.0, 0.1)),
        lambda _: IntervalParamScaler(0.1, (-1.0, 0.1)),
        lambda _: IntervalParamScaler(0.1, (0.2, 0.1)),
    ],
    ("rewards.reward_nets.AddSTDRewardWrapper.__init__", TypeError): [
        lambda bed: reward_nets.AddSTDRewardWrapper(bed.net()),
    ],
    ("rewards.reward_nets.BasicPotentialCNN.__init__", ValueError): [
        lambda _: reward_nets.BasicPotentialCNN(OBS_SPACE, (8,)),
    ],
    ("rewards.reward_nets.CnnRewardNet.__init__", ValueError): [
        lambda _: reward_nets.CnnRewardNet(OBS_SPACE, spaces.Discrete(2)),
        lambda _: reward_nets.CnnRewardNet(IMAGE, ACT_SPACE),
        lambda _: reward_nets.CnnRewardNet(IMAGE, ACT_SPACE, use_state=False, use_action=False),
    ],
    ("rewards.reward_nets.ForwardWrapper.__init__", ValueError): [
        lambda bed: reward_nets.ShapedRewardNet(
            reward_nets.NormalizedRewardNet(bed.net(), networks.RunningNorm), lambda obs: obs, 0.9
        ),
    ],
    ("rewards.reward_nets.RewardEnsemble.__init__", ValueError): [
        lambda _: reward_nets.RewardEnsemble(OBS_SPACE, ACT_SPACE, []),
    ],
    ("testing.expert_trajectories.make_expert_transition_loader", ValueError): [
        lambda bed: make_expert_transition_loader(bed.folder, 8, "array", "CartPole-v1", bed.rng),
    ],
    ("util.logger.HierarchicalLogger.accumulate_means", RuntimeError): [
        lambda bed: bed.means(lambda log: log.accumulate_means("disc")),
    ],
    ("util.logger.HierarchicalLogger.add_accumulate_prefix", RuntimeError): [
        lambda bed: bed.means(lambda log: log.add_accumulate_prefix("a")),
    ],
    ("util.logger.HierarchicalLogger.add_key_prefix", RuntimeError): [
        # The documentation has it the other way around; its own trainers use it while active.
        lambda bed: bed.log.add_key_prefix("a").__enter__(),
    ],
    ("util.logger.WandbOutputFormat.__init__", ModuleNotFoundError): [
        Bed.wandb_that_is_absent,
    ],
    ("util.networks.EMANorm.__init__", ValueError): [lambda _: networks.EMANorm(2, decay=1.5)],
    ("util.networks.build_cnn", ValueError): [
        lambda _: networks.build_cnn(3, (4,), out_size=2, squeeze_output=True),
    ],
    ("util.networks.build_mlp", ValueError): [
        lambda _: networks.build_mlp(3, (4,), out_size=2, squeeze_output=True),
        lambda _: networks.build_mlp(3, (4,), lipschitz=2.0),
        lambda _: networks.build_mlp(3, (4,), normalize_input_layer=th.nn.Module),
    ],
    ("util.util.endless_iter", ValueError): [
        lambda _: util.endless_iter(iter([1])),
        lambda _: util.endless_iter([]),
    ],
    ("util.util.get_first_iter_element", ValueError): [
        lambda _: util.get_first_iter_element([]),
    ],
    ("util.util.parse_path", ValueError): [
        lambda _: util.parse_path("a", allow_relative=False),
        lambda bed: util.parse_path("a", allow_relative=False, base_directory=bed.folder),
    ],
    ("util.util.tensor_iter_norm", ValueError): [
        lambda _: util.tensor_iter_norm([th.ones(2)], ord=0),
    ],
    # Of the later documentation, which has no signatures on lines of their own.
    ("algorithms.sqil.SQIL.__init__", ValueError): [
        lambda bed, name=name: sqil.SQIL(
            venv=bed.venv, demonstrations=None, policy="MlpPolicy", rl_kwargs={name: None}
        )
        for name in ("replay_buffer_class", "replay_buffer_kwargs")
    ],
}
_LATER = {("algorithms.sqil.SQIL.__init__", "ValueError")}

_FOLLOWING = {
    # What the source of the reference raises.
    ("TrajectoryDataset.sample", RuntimeError): [
        lambda bed: pc.TrajectoryDataset(bed.episodes(), bed.rng).sample(10**6),
    ],
    ("RandomFragmenter.__call__", ValueError): [
        lambda bed: pc.RandomFragmenter(bed.rng)([fragment(bed.rng)], 100, 1),
    ],
    ("BasicRewardTrainer.train", ValueError): [
        lambda bed: bed.trainer(
            regularizer_factory=LpRegularizer.create(
                1.0, IntervalParamScaler(0.1, (0.0, 0.1)), val_split=0.01, p=2
            )
        ).train(bed.dataset()),
    ],
    ("PreferenceComparisons.__init__, without rng", ValueError): [
        lambda bed: pc.PreferenceComparisons(bed.agent(), bed.net(), 2),
    ],
    ("PreferenceComparisons.__init__, rng without use", ValueError): [
        lambda bed: bed.comparisons(
            fragmenter=pc.RandomFragmenter(bed.rng),
            preference_gatherer=pc.SyntheticGatherer(rng=bed.rng),
            reward_trainer=bed.trainer(),
        ),
    ],
    ("BC.train, both lengths or none", ValueError): [
        lambda bed: bed.bc(demonstrations=bed.transitions(), batch_size=8).train(),
        lambda bed: bed.bc(demonstrations=bed.transitions(), batch_size=8).train(
            n_epochs=1, n_batches=1
        ),
    ],
    ("episodes of different length", ValueError): [
        lambda bed: bed.bc()._check_fixed_horizon([3, 4]),
    ],
    ("DAggerTrainer.extend_and_update", dagger.NeedsDemosException): [
        lambda bed: dagger.DAggerTrainer(
            venv=bed.venv, scratch_dir=bed.folder, rng=bed.rng, bc_trainer=bed.bc()
        ).extend_and_update(),
    ],
    ("IntervalParamScaler.__call__", ValueError): [
        lambda _, losses=losses: IntervalParamScaler(0.5, (0.5, 1.5))(1.0, *losses)
        for losses in ((th.ones(2), 1.0), (1.0, th.ones(2)), ("low", 1.0), (1.0, None))
    ]
    + [lambda _: IntervalParamScaler(0.5, (0.5, 1.5))(th.tensor(1.0), 1.0, 1.0)],
    ("DictObs", TypeError): [lambda _: types.DictObs({"a": "x"})],
    # Names in a registry.
    ("load_policy, type", KeyError): [lambda bed: load_policy("pppo", bed.venv)],
    ("load_reward, type", KeyError): [lambda bed: load_reward("shaped", bed.folder, bed.venv)],
    ("Registry.get", KeyError): [lambda _: registry.Registry().get("absent")],
    ("load_reward, wrapper", TypeError): [
        lambda bed, kind=kind: load_reward(kind, bed.reward_folder(), bed.venv)
        for kind in ("RewardNet_normalized", "RewardNet_shaped", "RewardNet_std_added")
    ],
    ("load_with_rewards, without rewards", ValueError): [
        lambda bed: (
            serialize.save(bed.folder / "d", [fragment(bed.rng, rewards=False)]),
            serialize.load_with_rewards(bed.folder / "d"),
        ),
    ],
    # Missing files, which programs answer by training or recording anew.
    ("missing path", FileNotFoundError): [
        lambda bed: serialize.load(bed.folder / "absent"),
        lambda bed: serialize.load_with_rewards(str(bed.folder / "absent.npz")),
        lambda bed: load_policy("ppo", bed.venv, path=bed.folder / "absent"),
        lambda bed: bc.reconstruct_policy(bed.folder / "absent"),
        lambda bed: dagger.reconstruct_trainer(bed.folder / "absent", bed.venv),
        lambda bed: load_reward("RewardNet_unshaped", bed.folder / "absent", bed.venv),
        lambda bed: pc.PreferenceDataset.load(bed.folder / "absent"),
    ],
}


def cases(table):
    return [case for (name, error), calls in table.items() for case in parsed(name, error, *calls)]


@pytest.fixture
def bed(tmp_path):
    return Bed(tmp_path)


@pytest.mark.parametrize(("error", "call"), cases(_DOCUMENTED) + cases(_FOLLOWING))
def test_the_error_is_of_the_type_that_the_reference_raises(error, call, bed):
    with pytest.raises(error) as caught:
        call(bed)
    message = str(caught.value)
    assert message.strip("'")
    assert "\n" not in message


def test_the_table_has_every_error_that_the_reference_documents(shared_dir):
    documented = set()
    for start in ("000", "001"):
        documented |= documented_errors(reference_text(shared_dir, start))
    names = {each for each in documented if not each[0].startswith("scripts.")} - REMOVED
    assert len(names) > 45
    assert {(name, error.__name__) for name, error in _DOCUMENTED} - _LATER == names


def test_a_missing_recording_is_made_anew_by_code_written_for_the_reference(bed):
    """The usual lines of such a program."""
    place = bed.folder / "rollouts"
    for attempt in ("recorded", "loaded"):
        try:
            episodes = serialize.load_with_rewards(place)
            done = "loaded"
        except FileNotFoundError:
            episodes, done = bed.episodes(), "recorded"
            serialize.save(place, episodes)
        assert done == attempt
    assert len(episodes) == len(bed.episodes())


def test_errors_of_two_types_show_their_message_without_quotes(bed):
    with pytest.raises(InputError) as caught:
        load_reward("shaped", bed.folder, bed.venv)
    assert str(caught.value).startswith(
        "reward_type: no 'shaped'; did you mean 'RewardNet_shaped'?"
    )
