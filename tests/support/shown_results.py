"""A results folder of a small benchmark, with learning curves and failures."""

import numpy as np

from imitbench.records.episodes import EpisodeTable
from imitbench.records.runs import (
    Budget,
    DemoSpec,
    EnvironmentSpec,
    Protocol,
    Provenance,
    ReferenceScores,
    RunFailure,
    RunResult,
)
from imitbench.store.run_dir import RunDirectory
from support.runs import make_spec

EPISODES = 10
REFERENCES = {
    "seals/CartPole-v0": (36.9, 500.0),
    "seals/MountainCar-v0": (-200.0, -96.8),
    "Pendulum-v1": (-1224.5, -165.2),
}
# Typical scores on the environments above, and their spread over seeds.
SKILLS = {
    "bc": ((0.99, 0.02), (0.86, 0.06), (0.62, 0.12)),
    "dagger": ((1.0, 0.004), (0.97, 0.02), (0.93, 0.03)),
    "gail": ((0.95, 0.08), (0.35, 0.3), (0.48, 0.2)),
    "preference_comparisons": ((0.9, 0.1), (0.1, 0.1), (0.7, 0.1)),
}
PROVENANCE = Provenance(
    imitbench="0.1.0",
    git_sha="0123456789abcdef0123456789abcdef01234567",
    python="3.11.7",
    packages={"torch": "2.13.0", "gymnasium": "1.4.0", "numpy": "2.4.6"},
    host="secret-host",
    cpu="A processor with 8 cores",
    gpu=None,
    command="imitbench run --algo bc,dagger,gail --suite classic --seeds 5",
)


def write_results(
    out,
    seeds=5,
    skills=SKILLS,
    failing=(("gail", "Pendulum-v1", 4),),
    message="",
    version="1.0",
):
    """Writes run directories.

    Args:
        out: Results folder.
        seeds: Runs of each algorithm on each environment.
        skills: Mean and spread of the score by algorithm, one pair for each of `REFERENCES`,
            or for its first ones.
        failing: Algorithm, environment and seed of runs that fail.
        message: Error message of these; by default, that the loss is not finite.
        version: Version of the suite's references.
    """
    for place, (algo, levels) in enumerate(skills.items()):
        for (env, anchors), (level, spread) in zip(REFERENCES.items(), levels, strict=False):
            for seed in range(seeds):
                rng = np.random.default_rng([place, len(env), seed])
                spec = _spec(algo, env, seed)
                references = ReferenceScores(random=anchors[0], expert=anchors[1], version=version)
                directory = RunDirectory.of(out, spec)
                directory.begin(spec)
                if (algo, env, seed) in failing:
                    directory.fail(_failure(spec, references, message or "the loss is nan"))
                else:
                    score = float(rng.normal(level, spread))
                    _finish(directory, spec, references, score, rng)


def _spec(algo, env, seed):
    taught = algo != "preference_comparisons"
    return make_spec(
        seed,
        algo,
        env,
        environment=EnvironmentSpec(id=env),
        budget=Budget(name="quick", unit="batches" if algo == "bc" else "env_steps", amount=20000),
        protocol=Protocol(episodes=EPISODES, environments=5),
        hyperparameters={"learning_rate": 0.0003, "batch_size": 64, "lean_ppo": True},
        uses_reward=not taught,
        demos=DemoSpec(
            source="bundled", repo=f"ppo-{env}", digest="48219f69", available=50, count=10
        )
        if taught
        else None,
    )


def _failure(spec, references, message):
    return RunFailure(
        run_id=spec.run_id,
        phase="train",
        error_type="FloatingPointError",
        message=message,
        traceback="Traceback",
        failed_at="2026-01-01T00:00:02.000+00:00",
        references=references,
        provenance=PROVENANCE,
    )


def _finish(directory, spec, references, score, rng):
    random, expert = references.random, references.expert
    raw = random + score * (expert - random)
    steps = np.linspace(0, spec.budget.amount, 41).astype(int)[1:]
    grown = 1 - np.exp(-5 * steps / spec.budget.amount)
    directory.write_curve(
        [
            {
                "step": int(step),
                "loss": float(1.5 * (1 - 0.8 * share) + rng.normal(0, 0.03)),
                "rollout/return_mean": float(
                    random + (score * share + rng.normal(0, 0.02)) * (expert - random)
                ),
            }
            for step, share in zip(steps, grown, strict=True)
        ]
    )
    spread = rng.normal(size=EPISODES) * 0.05 * (expert - random)
    returns = np.concatenate([raw + spread - spread.mean(), np.full(EPISODES, raw)])
    directory.write_episodes(
        EpisodeTable(
            returns=returns,
            lengths=np.full(2 * EPISODES, 200),
            terminated=np.zeros(2 * EPISODES, bool),
            deterministic=np.repeat([False, True], EPISODES),
        )
    )
    measured = {"reward_correlation": 0.7, "transfer_score": 0.6} if spec.uses_reward else {}
    directory.finish(
        RunResult(
            run_id=spec.run_id,
            raw_return=float(returns[:EPISODES].mean()),
            return_std=float(returns[:EPISODES].std()),
            deterministic_return=raw,
            mean_length=200.0,
            termination_rate=0.0,
            env_steps=0 if spec.algo == "bc" else spec.budget.amount,
            train_s=10.0 + spec.seed,
            wall_s=12.5 + spec.seed,
            started_at="2026-01-01T00:00:00.000+00:00",
            finished_at="2026-01-01T00:00:12.000+00:00",
            references=references,
            provenance=PROVENANCE,
            measures=measured,
        )
    )
