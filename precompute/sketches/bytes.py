"""One accumulator's State as bytes, and back.

An envelope (envelope.py) whose header names the accumulator with its parameters, its version and the number of rows.
Bytes of another version, of the format or of the accumulator, are refused.
"""

from precompute.errors import BlobError
from precompute.sketches.base import State
from precompute.sketches.columns import check_columns, row_count
from precompute.sketches.envelope import Envelope
from precompute.sketches.registry import accumulator

ENVELOPE = Envelope(b"ASTA", 1, "a state")


def to_bytes(name: str, state: State) -> bytes:
    """A State of the accumulator of this name; the same State gives the same bytes."""
    kept = accumulator(name)
    header = {"accumulator": kept.name, "version": kept.version, "rows": row_count(kept.columns, state)}
    return ENVELOPE.wrap(header, {c.name: state[c.name] for c in kept.columns})


def from_bytes(data: bytes) -> tuple[str, State]:
    """Name of the accumulator, and the State that `to_bytes` was given. Raises BlobError for anything else."""
    header, columns = ENVELOPE.unwrap(data)
    try:
        name, version, rows = str(header["accumulator"]), int(header["version"]), int(header["rows"])
    except (KeyError, TypeError, ValueError) as e:
        raise BlobError("the header of a state is not whole") from e
    check_state(name, version, columns, rows)
    return name, columns


def check_state(name: str, version: int, state: State, rows: int) -> None:
    """Raise BlobError unless these are whole and sound columns of that accumulator and version, of so many rows."""
    try:
        kept = accumulator(name)
    except ValueError as e:
        raise BlobError(f"accumulator {name} is not known here: {e}") from e
    if kept.version != version:
        raise BlobError(f"accumulator {name} of version {version} is not known here; this is version {kept.version}")
    check_columns(kept.columns, state, rows)
    kept.check(state)
