"""The tasks of `imitbench.envs.altered` that MuJoCo simulates: the same robots with other bodies.

The models are MuJoCo's own files, changed before they are compiled, so that masses and inertias of
shortened limbs are those of their new shape.
"""

from __future__ import annotations

import warnings
from typing import Any

import mujoco
import numpy as np
from gymnasium.envs.mujoco import MujocoEnv
from seals.mujoco import AntEnv, HalfCheetahEnv, HopperEnv

from imitbench.envs.altered import check_positive


def _scale_limb(body: mujoco.MjsBody, factor: float, *, joint: bool = True) -> None:
    """Scales the lengths of a body and of all that hang on it.

    Args:
        body: Body of a specification, which is changed.
        factor: Factor of all lengths; thickness stays.
        joint: Whether the place where it hangs on its parent moves, too.
    """
    if joint:
        body.pos = factor * np.asarray(body.pos)
    for geom in body.geoms:
        if np.isfinite(geom.fromto).all():
            geom.fromto = factor * np.asarray(geom.fromto)
        else:
            geom.pos = factor * np.asarray(geom.pos)
            geom.size = np.asarray(geom.size) * [1.0, factor, 1.0]
    for child in body.bodies:
        _scale_limb(child, factor)


class _Altered(MujocoEnv):
    """An environment whose model is changed before its simulation is created."""

    def _edit(self, spec: mujoco.MjSpec) -> None:
        """Changes the specification."""

    def _change(self, model: mujoco.MjModel) -> bool:
        """Changes the compiled model; returns whether what MuJoCo derives from it changes, too."""
        del model
        return False

    def _initialize_simulation(self) -> tuple[mujoco.MjModel, mujoco.MjData]:
        spec = mujoco.MjSpec.from_file(self.fullpath)
        self._edit(spec)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*settotalmass", UserWarning)  # of Gymnasium's file
            model = spec.compile()
        # As in the method that this one replaces: the model's frames are at least as large.
        frame = model.vis.global_
        frame.offwidth = max(frame.offwidth, self.width)
        frame.offheight = max(frame.offheight, self.height)
        data = mujoco.MjData(model)
        if self._change(model):
            mujoco.mj_setConst(model, data)
            mujoco.mj_resetData(model, data)
        return model, data


class Ant(_Altered, AntEnv):
    """The `seals/Ant-v1` of seals with other front legs.

    Fu et al. 2018, section 7.2, disable and shrink two legs of an ant.

    Args:
        front_legs: Length of the two front legs, as a multiple of the usual one.
        front_force: Force of their motors, as a multiple of the usual one; 0 disables them.
        **kwargs: See seals.
    """

    def __init__(self, front_legs: float = 1.0, front_force: float = 1.0, **kwargs: Any) -> None:
        check_positive(front_legs=front_legs)
        if not 0 <= front_force < float("inf"):
            raise ValueError(f"front_force must not be negative, but is {front_force}")
        self._legs, self._force = front_legs, front_force
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]

    def _edit(self, spec: mujoco.MjSpec) -> None:
        if self._legs != 1:
            for name in ("front_left_leg", "front_right_leg"):
                _scale_limb(spec.body(name), self._legs)
        for actuator in spec.actuators:
            if actuator.target in ("hip_1", "ankle_1", "hip_2", "ankle_2"):
                actuator.gear[0] *= self._force


class HalfCheetah(_Altered, HalfCheetahEnv):
    """The `seals/HalfCheetah-v1` of seals with another torso or other legs.

    Args:
        torso_mass: Mass of the torso, as a multiple of the usual one.
        legs: Length of all legs, as a multiple of the usual one; the mass of the whole robot stays
            14 kg, as its model demands.
        **kwargs: See seals.
    """

    def __init__(self, torso_mass: float = 1.0, legs: float = 1.0, **kwargs: Any) -> None:
        check_positive(torso_mass=torso_mass, legs=legs)
        self._mass, self._legs = torso_mass, legs
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]

    def _edit(self, spec: mujoco.MjSpec) -> None:
        if self._legs != 1:
            for name in ("bthigh", "fthigh"):
                _scale_limb(spec.body(name), self._legs, joint=False)

    def _change(self, model: mujoco.MjModel) -> bool:
        torso = model.body("torso").id
        model.body_mass[torso] *= self._mass
        model.body_inertia[torso] *= self._mass
        return self._mass != 1


class Hopper(_Altered, HopperEnv):
    """The `seals/Hopper-v1` of seals on another floor.

    Args:
        friction: Sliding friction of all contacts, as a multiple of the usual one.
        **kwargs: See seals.
    """

    def __init__(self, friction: float = 1.0, **kwargs: Any) -> None:
        check_positive(friction=friction)
        self._friction = friction
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]

    def _change(self, model: mujoco.MjModel) -> bool:
        model.geom_friction[:, 0] *= self._friction
        return False
