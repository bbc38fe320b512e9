"""Random generators as plain values, and back: the next draw is the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel.io._plain import Unsaveable

BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def encode_rng(rng: np.random.Generator | np.random.RandomState) -> dict[str, Any]:
    """Return the state of ``rng``, and the seed that its ``spawn`` goes on from."""
    if isinstance(rng, np.random.RandomState):
        state: Any = rng.get_state(legacy=False)
        seed: Any = None
    else:
        state, seed = rng.bit_generator.state, rng.bit_generator.seed_seq
    if state["bit_generator"] not in BIT_GENERATORS:
        raise Unsaveable(
            f"generators that draw from {state['bit_generator']} cannot be saved; use "
            "numpy.random.default_rng"
        )
    plain = isinstance(seed, np.random.SeedSequence) and seed.pool_size == 4
    names = ("entropy", "spawn_key", "n_children_spawned")
    return {
        "state": state,
        "seed": {name: getattr(seed, name) for name in names} if plain else None,
    }


def decode_generator(saved: dict[str, Any]) -> np.random.Generator:
    """Return the generator that was saved."""
    return np.random.Generator(_bit_generator(saved))


def decode_random_state(saved: dict[str, Any]) -> np.random.RandomState:
    """Return the generator of numpy's older kind that was saved."""
    rng = np.random.RandomState(_bit_generator(saved))
    rng.set_state(saved["state"])
    return rng


def _bit_generator(saved: dict[str, Any]) -> Any:
    state, seed = saved["state"], saved["seed"]
    if state["bit_generator"] not in BIT_GENERATORS:
        raise ValueError(f"there is no bit generator {state['bit_generator']!r}")
    start = 0 if seed is None else np.random.SeedSequence(**seed)
    source = getattr(np.random, state["bit_generator"])(start)
    source.state = state
    _check_position(source.state)
    return source


def _check_position(state: dict[str, Any]) -> None:
    """Raise where the next draw would read outside a buffer; numpy does not look."""
    name, last = state["bit_generator"], 0
    position = 0
    if name == "MT19937":
        position, last = state["state"]["pos"], 624
    elif name == "Philox":
        position, last = state["buffer_pos"], 4
    if not 0 <= position <= last:
        raise ValueError(
            f"the state of {name} stands at {position}, outside its buffer"
        )
