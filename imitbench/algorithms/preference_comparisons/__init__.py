"""Deep reinforcement learning from human preferences: a reward learned from comparisons.

Christiano et al. 2017, https://arxiv.org/abs/1706.03741. A round of `PreferenceComparisons` uses
the modules in this order: `trajectory_generators` and `agent_trainer` act, `fragmenters`
chooses pairs of fragments, `gatherers`, `answer_queue` and `human_gatherer` compare them, `dataset`
stores the preferences, `reward_trainers` fits the network with `preference_model`, and the agent is
trained on it.
"""

from imitbench.algorithms.preference_comparisons.agent_trainer import AgentTrainer
from imitbench.algorithms.preference_comparisons.algorithm import (
    QUERY_SCHEDULES,
    PreferenceComparisons,
    TrainingRound,
)
from imitbench.algorithms.preference_comparisons.answer_queue import (
    QueueGatherer,
    RecordedGatherer,
)
from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.algorithms.preference_comparisons.fragmenters import (
    ActiveSelectionFragmenter,
    Fragmenter,
    RandomFragmenter,
)
from imitbench.algorithms.preference_comparisons.gatherers import (
    TEACHERS,
    AnsweredPairs,
    PreferenceGatherer,
    ScriptedTeacher,
    SyntheticGatherer,
    make_teacher,
)
from imitbench.algorithms.preference_comparisons.human_gatherer import (
    GatheringStoppedError,
    SynchronousHumanGatherer,
)
from imitbench.algorithms.preference_comparisons.preference_model import (
    CrossEntropyRewardLoss,
    LossAndMetrics,
    PreferenceModel,
    RewardLoss,
    get_base_model,
)
from imitbench.algorithms.preference_comparisons.reward_trainers import (
    BasicRewardTrainer,
    EnsembleTrainer,
    RewardTrainer,
    make_reward_trainer,
    preference_collate_fn,
)
from imitbench.algorithms.preference_comparisons.trajectory_generators import (
    TrajectoryDataset,
    TrajectoryGenerator,
    TrajectoryMixture,
)
from imitbench.data.atari import register_atari

# Users of preference comparisons create Atari games by their Gymnasium ids.
register_atari()

__all__ = [
    "QUERY_SCHEDULES",
    "TEACHERS",
    "ActiveSelectionFragmenter",
    "AgentTrainer",
    "AnsweredPairs",
    "BasicRewardTrainer",
    "CrossEntropyRewardLoss",
    "EnsembleTrainer",
    "Fragmenter",
    "GatheringStoppedError",
    "LossAndMetrics",
    "PreferenceComparisons",
    "PreferenceDataset",
    "PreferenceGatherer",
    "PreferenceModel",
    "QueueGatherer",
    "RandomFragmenter",
    "RecordedGatherer",
    "RewardLoss",
    "RewardTrainer",
    "ScriptedTeacher",
    "SynchronousHumanGatherer",
    "SyntheticGatherer",
    "TrainingRound",
    "TrajectoryDataset",
    "TrajectoryGenerator",
    "TrajectoryMixture",
    "get_base_model",
    "make_reward_trainer",
    "make_teacher",
    "preference_collate_fn",
]
