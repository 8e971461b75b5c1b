"""Parts of suite cards about data: sets of trajectories, and which of them methods learn from."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from imitbench.cards.algorithm import Card
from imitbench.errors import did_you_mean

SET_NAME = r"^[a-z][a-z0-9_-]*$"
"""Names of sets of trajectories besides the demonstrations, such as `medium`."""

FOLDER_NAME = r"^\.*[\w-][\w.-]*$"
"""Names of folders of experts and sets; `.` and `..` would lead elsewhere."""

SetName = Annotated[str, Field(pattern=SET_NAME)]
Mixture = dict[SetName, Annotated[int, Field(ge=1)]]
"""Numbers of trajectories by the name of their set."""


class Measurement(Card):
    """A mean return, with everything needed to repeat the measurement.

    Attributes:
        mean: Mean undiscounted return.
        std: Standard deviation over episodes.
        episodes: Number of episodes.
        deterministic: Whether the deterministic policy was measured.
        command: Command line of the measurement.
        date: Date of the measurement, ISO 8601.
        revision: Digest (first 12 digits) of the measured expert or demonstrations; `null` for
            random actions.
        termination_rate: Share of the episodes that ended before the time limit; `null` if it was
            not recorded.
        mean_length: Mean number of steps of an episode; `null` if it was not recorded.
    """

    mean: float
    std: float = Field(ge=0)
    episodes: int = Field(ge=1)
    deterministic: bool
    command: str
    date: str
    revision: str | None = None
    termination_rate: float | None = Field(default=None, ge=0, le=1)
    mean_length: float | None = Field(default=None, gt=0)

    @property
    def standard_error(self) -> float:
        """Standard error of the mean; `std` is the population value."""
        return self.std / math.sqrt(max(self.episodes - 1, 1))


PackageData = Annotated[str, Field(pattern=r"^(lasa:\w+|pusht:images)$")]
"""Demonstrations that an installed package gives: `lasa:` and the name of a motion, or
`pusht:images`, the demonstrations of suite `pusht` as its simulator draws them."""


Conversion = Literal["pusht_keypoints"]
"""How frames of LeRobot become demonstrations of an environment: `pusht_keypoints` turns points of
PushT's block into its position and angle."""


class HubSource(Card):
    """A repository on a Hugging Face hub.

    Attributes:
        repo: Name of the repository, `owner/name`.
        revision: The pinned commit, 40 hexadecimal digits; `null` until `imitbench suites pin`
            has been run.
    """

    repo: str = Field(pattern=r"^[\w-][\w.-]*/[\w-][\w.-]*$")
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")


class HubDemos(HubSource):
    """Demonstrations on a Hugging Face hub.

    Attributes:
        conversion: For a set of LeRobot whose recordings are not what the environment shows: how
            they are converted; `null` for a set that this package wrote.
    """

    conversion: Conversion | None = None


class DemoSet(Card):
    """The bundled demonstrations of an environment.

    Attributes:
        repo: Folder under `demos/`, in hub naming.
        trajectories: Number of bundled trajectories.
        seed: Seed of the collection.
        deterministic: Whether the expert acted deterministically.
        home: Bundled suite in whose folder they are; `null` for the suite of this card.
        package: Data of an installed package that they are made from, such as `lasa:GShape` for a
            motion of the LASA handwriting data; `null` for files in the suite's folder.
        hub: Demonstrations on the hub, used with `--source hub`; `null` for none.
    """

    repo: str = Field(pattern=FOLDER_NAME)
    trajectories: int = Field(ge=1)
    seed: int = 0
    deterministic: bool = False
    home: str | None = None
    package: PackageData | None = None
    hub: HubDemos | None = None


class PolicySet(Card):
    """A set of trajectories of another policy than the expert, for mixtures.

    Attributes:
        repo: Folder under `demos/`, in hub naming.
        trajectories: Number of trajectories.
        policy: What acted, for `imitbench demos collect`: uniformly random actions, or the policy
            at a checkpoint of a training by the expert's recipe; `recorded` for trajectories that
            this package does not collect.
        bundled: Whether the suite's folder has the trajectories. Otherwise it has the policy of the
            checkpoint, `experts/REPO`, and a run collects the set into the user's cache first.
        source: File, folder or set of Minari that it is converted from, relative to the suite's
            folder; `null` for the suite's own files.
        env_steps: Steps of that training up to the checkpoint, with the schedules of the whole.
        training_seed: Seed of that training; `null` for the expert's.
        seed: Seed of the collection.
        home: Bundled suite in whose folder it is; `null` for the suite of this card.
        returns: Returns of the trajectories in the set; `null` where no rewards were recorded.
    """

    repo: str = Field(pattern=FOLDER_NAME)
    trajectories: int = Field(ge=1)
    policy: Literal["random", "checkpoint", "recorded"] = "recorded"
    bundled: bool = True
    source: str | None = Field(default=None, min_length=1)
    env_steps: int | None = Field(default=None, ge=1)
    training_seed: int | None = Field(default=None, ge=0)
    seed: int = 0
    home: str | None = None
    returns: Measurement | None = None

    @model_validator(mode="after")
    def _a_checkpoint_has_a_step(self) -> PolicySet:
        if (self.policy == "checkpoint") != (self.env_steps is not None):
            raise ValueError("env_steps: belongs to policy checkpoint, and to no other")
        if self.training_seed is not None and self.policy != "checkpoint":
            raise ValueError("training_seed: belongs to policy checkpoint, and to no other")
        if not self.bundled and (self.policy == "recorded" or self.source is not None):
            raise ValueError("bundled: only sets with policy random or checkpoint are collected")
        return self

    def why_too_small(self, count: int) -> str | None:
        """Returns why so many trajectories cannot be drawn; `None` if they can."""
        if count <= self.trajectories:
            return None
        return f"{self.repo} has {self.trajectories} trajectories, fewer than {count}"


FULL = "full"
"""Name of the regime with all demonstrations, which every suite has."""


class Regime(Card):
    """What methods learn from.

    Attributes:
        n_demos: Number of demonstrations, which each seed draws; `null` for all.
        demo_every: One step is kept out of so many of each; `null` for all steps.
        actions: `hidden` removes all actions, so that methods learn from observations.
        mixture: Trajectories of mixed quality, which methods get besides the demonstrations if they
            ask for them: numbers by the name of their set, drawn by each seed.
    """

    n_demos: int | None = Field(default=None, ge=1)
    demo_every: int | None = Field(default=None, ge=2)
    actions: Literal["shown", "hidden"] = "shown"
    mixture: Mixture = Field(default_factory=dict)

    def __str__(self) -> str:
        return in_words(
            "all" if self.n_demos is None else self.n_demos,
            self.demo_every,
            self.actions,
            mixture_text(self.mixture),
        )

    @property
    def recorded(self) -> dict[str, Any]:
        """Its fields as requests and files have them, where they say something."""
        document: dict[str, Any] = {"n_demos": self.n_demos, "demo_every": self.demo_every}
        if self.actions != "shown":
            document["actions"] = self.actions
        if self.mixture:
            document["mixture"] = dict(self.mixture)
        return document

    def why_impossible(self, sets: Mapping[str, PolicySet]) -> str | None:
        """Returns why an environment lacks the trajectories of the mixture; `None` if it has them.

        Args:
            sets: The sets of the environment, by name.
        """
        for name, count in self.mixture.items():
            if name not in sets:
                return _why_no_set(name, sets)
            if (why := sets[name].why_too_small(count)) is not None:
                return why
        return None


def _why_no_set(name: str, sets: Mapping[str, PolicySet]) -> str:
    if name == "expert":
        return "the demonstrations are the expert's part of a mixture; --n-demos says how many"
    why = f"the suite card names no set {name} of this environment"
    return f"{why}; {did_you_mean(name, sets)}" if sets else why


def mixture_text(mixture: Mapping[str, int]) -> str:
    """Returns a mixture as records and tables of runs have it, such as `medium:10,random:10`."""
    return ",".join(f"{name}:{count}" for name, count in sorted(mixture.items()))


def parse_mixture(text: str) -> tuple[dict[str, int], dict[str, str]]:
    """Parses a mixture such as `medium:10,replay=hopper.hdf5:20`.

    Args:
        text: Sets of the suite's card, or names of one's own with where they are, each with its
            number of trajectories.

    Returns:
        Numbers of trajectories by the name of their set, and where one's own sets are.

    Raises:
        ValueError: It has no such form, or names a set twice.
    """
    counts: dict[str, int] = {}
    sources: dict[str, str] = {}
    for part in text.split(","):
        named, _, count = (word.strip() for word in part.rpartition(":"))
        name, own, source = (word.strip() for word in named.partition("="))
        wrong = not re.match(SET_NAME, name) or not re.fullmatch(r"[1-9]\d{0,8}", count)
        if wrong or (own and not source):
            raise ValueError(
                f"{part.strip() or repr(part)}: must be a set and its number of trajectories, "
                "such as medium:10, or replay=FILE:20 for one of your own"
            )
        if name in counts:
            raise ValueError(f"{name}: named twice")
        counts[name] = int(count)
        if own:
            sources[name] = source
    return counts, sources


def in_words(
    n_demos: int | Literal["all"], every: int | None, actions: str | None, mixture: str | None
) -> str:
    """Describes what methods learn from, such as `1 demonstration, one step in 20, no actions`.

    Args:
        n_demos: Number of demonstrations.
        every: One step is kept out of so many of each; `None` or 1 for all.
        actions: `hidden` if there are none.
        mixture: As `mixture_text` returns it; `None` or empty for none.
    """
    return f"{n_demos} demonstration{'' if n_demos == 1 else 's'}" + "".join(
        f", {part}" for part in restrictions(every, actions, mixture)
    )


def restrictions(every: int | None, actions: str | None, mixture: str | None) -> list[str]:
    """Returns the parts of `in_words` after the number of demonstrations, in order."""
    found = [] if every in (None, 1) else [f"one step in {every}"]
    if actions == "hidden":
        found.append("no actions")
    for part in filter(None, (mixture or "").split(",")):
        name, _, count = part.partition(":")
        found.append(f"{count} {name}")
    return found
