"""Defines the options of `imitbench train` as one record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from imitbench.executors.options import CHECKPOINT_S, CheckpointInterval, Device
from imitbench.util.options import Option, OptionRecord

_Amount = Annotated[int | None, Field(ge=1)]


class TrainingRequest(OptionRecord):
    """The options of one training of one algorithm."""

    algo: Annotated[str, Option("Algorithm.", kind=Literal["ppo", "sac", "dqn"])] = "ppo"
    env: Annotated[
        str,
        Option("Environment id, or module:id if importing a module registers it.", metavar="ID"),
    ]
    suite: Annotated[
        str | None,
        Option("Suite of --env, or its folder [the first suite that has it].", metavar="NAME"),
    ] = None
    reward: Annotated[
        Path | None,
        Option(
            "Saved reward, or a training's folder, to train on [the true reward].",
            metavar="DIR",
        ),
    ] = None
    reward_plugin: Annotated[
        str | None,
        Option("The plug-in that defines the reward's class; it is imported.", metavar="PLUGIN"),
    ] = None
    demos: Annotated[
        str | None,
        Option(
            "Demonstrations: folder, bundled set, or repository owner/name [the suite's].",
            metavar="DIR_OR_REPO",
        ),
    ] = None
    n_demos: Annotated[
        _Amount,
        Option("Number of demonstrations [all], or to sample from --expert [50].", metavar="N"),
    ] = None
    expert: Annotated[
        str | None,
        Option(
            "Expert to sample demonstrations from, or to query: folder, zip, bundled, owner/name; "
            "with DAgger also 'human'.",
            metavar="DIR_OR_REPO",
        ),
    ] = None
    controls: Annotated[
        Path | None,
        Option("With --expert human: file that maps inputs to actions.", metavar="FILE"),
    ] = None
    rate: Annotated[
        Annotated[float | None, Field(ge=10, le=60)],
        Option("With --expert human: steps per second [the environment's own].", metavar="HZ"),
    ] = None
    port: Annotated[
        Annotated[int | None, Field(ge=0, le=65535)],
        Option("With --expert human: port of the page; 0 for any [8898].", metavar="N"),
    ] = None
    no_browser: Annotated[bool, Option("With --expert human: only print the link.")] = False
    total_timesteps: Annotated[
        _Amount,
        Option(
            "Environment steps of training [the suite's default budget, or 100000].", metavar="N"
        ),
    ] = None
    batches: Annotated[
        _Amount, Option("Batches of training [the suite's default budget, or 2000].", metavar="N")
    ] = None
    epochs: Annotated[
        _Amount, Option("Passes over the demonstrations, instead of --batches.", metavar="N")
    ] = None
    iterations: Annotated[
        _Amount, Option("Maximum number of iterations [the suite's default budget].", metavar="N")
    ] = None
    total_comparisons: Annotated[
        _Amount, Option("Number of compared pairs of fragments [from the card].", metavar="N")
    ] = None
    variable_horizon: Annotated[
        bool,
        Option(
            "Allow episodes of different lengths, whose ends give information about the reward.",
            keyword="allow_variable_horizon",
        ),
    ] = False
    seed: Annotated[int, Field(ge=0), Option("Seed.")] = 0
    overrides: dict[str, str] = Field(default_factory=dict)
    """Hyper-parameters as text, by name."""
    episodes: Annotated[
        int, Field(ge=1), Option("Episodes that measure the policy.", keyword="eval_episodes")
    ] = 50
    device: Device = "auto"
    checkpoint_s: CheckpointInterval = CHECKPOINT_S

    @property
    def amount(self) -> int | None:
        """Amount of training in the algorithm's unit; `None` for the suite's budget."""
        named = (self.total_timesteps, self.batches, self.iterations)
        return next((amount for amount in named if amount is not None), None)
