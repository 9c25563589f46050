"""The bodies of the benchmark say what the plain encoder says."""

from pathlib import Path

import cramjam
import numpy as np

from tests.bench.bodies import ONE, TWENTY, Encoder, encode
from tests.bench.data import STEP_MS, STEPS, Dataset
from tests.ingest.wire import encode_columns

DATA = Dataset(spread=2, end_ms=1_700_000_010_000 // STEP_MS * STEP_MS)


def test_a_filled_in_request_is_what_the_plain_encoder_writes() -> None:
    times = DATA.times_ms[:20]
    (packed,) = Encoder(DATA, TWENTY).batch(times)
    values = np.stack([DATA.values(t) for t in times], axis=1)
    plain = encode_columns(DATA.label_runs(), np.tile(np.array(times), DATA.series), values.ravel(), 20)
    assert bytes(cramjam.snappy.decompress_raw(packed)) == plain


def test_both_kinds_hold_the_whole_hour_in_order_of_time(tmp_path: Path) -> None:
    for kind, batches in ((ONE, STEPS), (TWENTY, STEPS // 20)):
        bodies = encode(DATA, kind, tmp_path)
        assert len(bodies.batches) == batches
        assert len(list(bodies.read(0, batches))) == batches
    assert DATA.times_ms == sorted(DATA.times_ms)
    assert DATA.times_ms[-1] == DATA.end_ms


def test_values_are_the_same_whenever_they_are_asked_for() -> None:
    again = Dataset(spread=2, end_ms=DATA.end_ms)
    np.testing.assert_array_equal(DATA.values(DATA.end_ms), again.values(DATA.end_ms))
    assert len(DATA.values(DATA.end_ms)) == len(DATA.label_runs()) == 7 * 8
