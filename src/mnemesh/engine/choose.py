"""Which way to play: by what is installed, what the run asks for, and the work ahead."""

from __future__ import annotations

import difflib
from importlib.util import find_spec

from mnemesh.algorithms.algorithm import Algorithm
from mnemesh.domains import Ball, Box, Everything
from mnemesh.engine.stage import Stage
from mnemesh.errors import EngineError, require
from mnemesh.losses import Attention, DeltaNet
from mnemesh.problem import Problem
from mnemesh.streams import Computed

__all__ = ["ENGINES", "choose", "drawn_inside", "playable", "seconds_ahead"]

ENGINES = ("numpy", "numba", "jax")
_ROUND, _MULTIPLY = 4e-5, 3e-10  # what NumPy takes on a slow core: seconds a round, and seconds a multiply-add of both products
_WORTH_COMPILING = 1.0  # seconds of NumPy from which a compiler pays
_WORTH_A_GPU = 30.0


def choose(stage: Stage, engine: str) -> str:
    """The engine that plays this: `engine` itself, checked, or for "auto" the one that answers first. A pure function of the run and the machine."""
    if engine != "auto":
        if engine not in ENGINES:
            near = difflib.get_close_matches(str(engine), ENGINES, n=1)
            raise EngineError(f"there is no engine {engine!r}: {f'did you mean {near[0]!r}? ' if near else ''}Choose auto, {', '.join(ENGINES)}.")
        why = _refusal(stage.problems[0], stage.algorithm, engine)
        if why:
            able = playable(stage.problems[0], stage.algorithm)
            raise EngineError(f"engine={engine!r} cannot play this: {why}. {' and '.join(able)} can.")
        require({"numba": "numba", "jax": "jax"}.get(engine, "numpy"), f'engine="{engine}"')
        return engine
    able = playable(stage.problems[0], stage.algorithm)
    if able == ("jax",):
        return "jax"
    ahead = seconds_ahead(stage)
    if "jax" in able and find_spec("jax") and ahead > _WORTH_A_GPU and _on_a_gpu():
        return "jax"
    if ahead > _WORTH_COMPILING:
        for engine in ("numba", "jax"):  # on a CPU the kernel first; JAX for what it cannot play
            if engine in able and find_spec(engine):
                return engine
    return "numpy"


def playable(problem: Problem, algorithm: Algorithm) -> tuple[str, ...]:
    """The engines that can play this, installed or not."""
    return tuple(engine for engine in ENGINES if not _refusal(problem, algorithm, engine))


def seconds_ahead(stage: Stage) -> float:
    """About how long NumPy would take."""
    d_v, d_phi = stage.shape
    return stage.rounds * (_ROUND + _MULTIPLY * len(stage.score.partners) * stage.associations * d_v * d_phi)


def _refusal(problem: Problem, algorithm: Algorithm, engine: str) -> str:
    """Why an engine cannot play this; empty if it can."""
    if engine == "numpy":
        return f"the loss {problem.loss.name!r} needs automatic differentiation" if problem.loss.needs_jax else ""
    if engine == "jax":
        return ""
    if not algorithm.agent_by_agent:
        return f"{algorithm.name} is not played agent by agent (an agent there reads others' memories, or has a rule of its own)"
    if not isinstance(problem.loss, Attention | DeltaNet):
        return f"the loss {problem.loss.name!r} is not one of Table 1's, which the kernel is compiled for"
    if not isinstance(problem.domain, Ball | Box | Everything):
        return f"the domain {problem.domain!r} is not a ball, a box or everything, which the kernel is compiled for"
    return ""


def _on_a_gpu() -> bool:
    return bool(require("jax", 'engine="jax"').default_backend() != "cpu")


def drawn_inside(stage: Stage) -> bool:
    """Whether the data can be drawn inside a compiled run."""
    return len({source.kind() if isinstance(source, Computed) else id(source) for source in stage.sources}) == 1 and isinstance(stage.sources[0], Computed)
