"""The fixed set of serialised States, one for each contract line and version, and the answers that were read from them.

    python -m tests.contracts.stored_states

writes those that are not there yet, and touches no other: what is there was stored once, and stays readable.
"""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from precompute.sketches.base import Items, State, build_of
from precompute.sketches.bytes import from_bytes, to_bytes
from precompute.sketches.columns import concat_columns
from precompute.sketches.registry import accumulator
from tests.contracts.accumulator_lines import LINES, parameter_of

FOLDER = Path(__file__).resolve().parents[1] / "data" / "states"
ANSWERS = "answers.json"
HALF = 700

Answers = dict[str, list[float | None]]


def path_of(name: str) -> Path:
    """Where the State of an accumulator is, for its version of today."""
    return FOLDER / f"{re.sub('[^a-z0-9.]+', '_', name).strip('_')}.v{accumulator(name).version}.bin"


def state_of(name: str) -> State:
    """Three rows, of two halves that are merged: whole arithmetic alone, so the same everywhere and for good."""
    kept = accumulator(name)
    items = [_weights(_items(part)) if "weight" in kept.answers else _items(part) for part in (0, 1)]
    halves = concat_columns(kept.columns, [build_of(kept, half) for half in items])
    return kept.merge(halves, np.tile(np.arange(3), 2), 3)


def _items(part: int) -> Items:
    i = np.arange(part * HALF, (part + 1) * HALF)
    value = (i * 7919 % 1013 - 300) / 8.0
    value[i % 97 == 5], value[i == 40], value[i == 41], value[i == 42] = math.nan, math.inf, -math.inf, 0.0
    key = (i * i % 151).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return Items((i * i % 3).astype(np.int32), value, i * 1000, key, 3)


def _weights(items: Items) -> Items:
    """The same with values that weights can be."""
    return replace(items, value=np.where(np.isfinite(items.value), np.abs(items.value), 1.0))


def answers_of(name: str, state: State) -> Answers:
    """Every statistic; None for NaN."""
    kept = accumulator(name)
    found = {statistic: kept.estimate(state, statistic, parameter_of(statistic)).tolist() for statistic in kept.answers}
    return {s: [None if math.isnan(v) else v for v in values] for s, values in found.items()}


def stored_answers() -> dict[str, Answers]:
    """By file name."""
    path = FOLDER / ANSWERS
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    answers = stored_answers()
    for line in LINES:
        path = path_of(line.name)
        if not path.exists():
            path.write_bytes(to_bytes(line.name, state_of(line.name)))
            answers[path.name] = answers_of(*from_bytes(path.read_bytes()))
    (FOLDER / ANSWERS).write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
