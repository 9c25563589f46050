"""Floor, final, base, holes: the rules, and how they are kept on disk."""

import json
import os
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precompute.errors import InstallMismatch, LogDamaged
from precompute.log.base import Hole
from precompute.progress import (
    MAX_HOLES,
    Progress,
    add_hole,
    after_loss,
    cut_holes,
    first_start,
    prune_holes,
    raise_floor,
    restarted,
    settle,
    trimmed,
)
from precompute.progress_file import ProgressFile, open_progress

NOW_MS, ACCEPTANCE_MS, LATENESS_MS = 1_700_000_000_000, 3_600_000, 15_000
FIXED = {"shards": 16, "hash_seed": 0, "window_size": "15s"}
ROOT = Path(__file__).parents[2]
FULL = Progress(
    floor_ms=NOW_MS - 9,
    final_ms=NOW_MS - 10,
    base_ms=5,
    alive_ms=NOW_MS,
    holes=(Hole(1, 2), Hole(3, 4, "mé")),
    histogram_metrics=frozenset({"h1", "h2"}),
    refused_until_ms=3,
    first_entry=7,
    last_entry=9,
    fixed=FIXED,
)


LATER = ("entries", "refused_until_ms")
LATER_FIELDS = {"refused_until_ms": FULL.floor_ms, "first_entry": 0, "last_entry": 0}
"""What files of earlier versions do not have, and what is taken for it."""


@pytest.fixture
def file(tmp_path: Path) -> ProgressFile:
    return ProgressFile(tmp_path / "state.json")


# -- the rules


def test_a_first_start_without_an_upstream_is_complete_since_ever() -> None:
    floor_ms = NOW_MS - ACCEPTANCE_MS
    assert first_start(NOW_MS, ACCEPTANCE_MS, has_upstream=False) == Progress(floor_ms, floor_ms, 0, NOW_MS)


def test_a_first_start_with_an_upstream_is_complete_from_now_on() -> None:
    assert first_start(NOW_MS, ACCEPTANCE_MS, has_upstream=True).base_ms == NOW_MS


def test_a_lost_progress_is_complete_from_now_on_whatever_else_is_there() -> None:
    assert after_loss(NOW_MS, ACCEPTANCE_MS).base_ms == NOW_MS


def test_a_stop_as_long_as_the_lateness_leaves_no_hole() -> None:
    again = restarted(FULL, NOW_MS + LATENESS_MS, LATENESS_MS)
    assert (again.holes, again.alive_ms) == (FULL.holes, NOW_MS + LATENESS_MS)


def test_a_longer_stop_leaves_a_hole_of_all_metrics() -> None:
    start_ms = NOW_MS + LATENESS_MS + 1
    again = restarted(FULL, start_ms, LATENESS_MS)
    assert set(again.holes) - set(FULL.holes) == {Hole(NOW_MS, start_ms)}
    assert (again.floor_ms, again.final_ms, again.base_ms) == (FULL.floor_ms, FULL.final_ms, FULL.base_ms)


def test_a_clock_that_went_back_leaves_a_hole_since_the_floor() -> None:
    again = restarted(FULL, NOW_MS - LATENESS_MS - 1, LATENESS_MS)
    assert set(again.holes) - set(FULL.holes) == {Hole(NOW_MS - LATENESS_MS - 1, NOW_MS)}
    later_floor = replace(FULL, floor_ms=NOW_MS - 3_600_000)
    assert Hole(NOW_MS - 3_600_000, NOW_MS) in restarted(later_floor, NOW_MS - 60_000, LATENESS_MS).holes


def test_the_floor_follows_a_trusted_clock_only_and_only_up() -> None:
    assert raise_floor(FULL, NOW_MS + 100, 50, clock_trusted=True).floor_ms == NOW_MS + 50
    assert raise_floor(FULL, NOW_MS + 100, 50, clock_trusted=False) == FULL
    assert raise_floor(FULL, NOW_MS - 100, 50, clock_trusted=True) == FULL


def test_a_longer_acceptance_age_does_not_reopen_what_is_settled() -> None:
    assert raise_floor(FULL, NOW_MS + 1, 10 * ACCEPTANCE_MS, clock_trusted=True).floor_ms == FULL.floor_ms


def test_nothing_past_the_floor_can_be_settled() -> None:
    assert settle(FULL, FULL.floor_ms).final_ms == FULL.floor_ms
    assert settle(FULL, FULL.final_ms - 5) == FULL
    with pytest.raises(ValueError, match="past the floor"):
        settle(FULL, FULL.floor_ms + 1)


def test_base_only_rises() -> None:
    assert trimmed(FULL, 100).base_ms == 100
    assert trimmed(FULL, 1).base_ms == FULL.base_ms


def test_holes_that_meet_become_one_and_others_stay() -> None:
    progress = replace(FULL, holes=())
    for hole in (Hole(10, 20), Hole(40, 50), Hole(20, 30), Hole(15, 18), Hole(20, 45, "m"), Hole(9, 9)):
        progress = add_hole(progress, hole)
    assert progress.holes == (Hole(10, 30), Hole(40, 50), Hole(20, 45, "m"))


def test_a_hole_is_forgotten_once_it_lies_before() -> None:
    holes = (Hole(1, 10), Hole(5, 11, "m"))
    assert prune_holes(replace(FULL, holes=holes), 10).holes == (Hole(5, 11, "m"),)


def test_holes_ages_ahead_end_where_samples_are_taken_now_and_others_stay() -> None:
    day_ms = 86_400_000
    holes = (Hole(1, 50), Hole(10, 9 * day_ms, "m"), Hole(day_ms, day_ms + 5, "n"), Hole(8 * day_ms, 9 * day_ms, "o"))
    cut = cut_holes(replace(FULL, holes=holes), now_ms=100, max_future_ms=60_000)
    assert cut.holes == (holes[0], Hole(10, 60_100, "m"), holes[2])


@given(seed=st.integers(0, 1 << 32), span_ms=st.sampled_from([1000, 100_000, 10**9]))
@settings(max_examples=10)
def test_too_many_holes_become_fewer_that_cover_them_all(seed: int, span_ms: int) -> None:
    starts = np.random.default_rng(seed).integers(0, span_ms, MAX_HOLES + 200).tolist()
    holes = [Hole(after, after + 1 + after % 50, f"m{i}") for i, after in enumerate(starts)]
    progress = replace(FULL, holes=())
    for hole in holes:
        progress = add_hole(progress, hole)
    assert len(progress.holes) <= MAX_HOLES
    for hole in holes:
        assert any(
            kept.after_ms <= hole.after_ms and hole.until_ms <= kept.until_ms and kept.metric in ("", hole.metric)
            for kept in progress.holes
        )


def test_one_hole_too_many_halves_them_over_the_smallest_distances() -> None:
    holes = tuple(Hole(1000 * i, 1000 * i + (500 if i % 4 == 3 else 800), "m") for i in range(MAX_HOLES))
    fewer = add_hole(replace(FULL, holes=holes), Hole(10**9, 10**9 + 1)).holes
    assert len(fewer) == MAX_HOLES // 4 + 1
    assert fewer[1] == Hole(4000, 7500)
    assert fewer[-1] == Hole(10**9, 10**9 + 1)


# -- on disk


def test_what_was_saved_is_loaded(file: ProgressFile) -> None:
    assert file.load(FIXED) is None
    file.save(FULL)
    assert file.load(FIXED) == FULL


@pytest.mark.parametrize(("key", "value"), [("shards", 8), ("hash_seed", 7)])
def test_a_constant_that_differs_is_named_with_both_values_and_the_remedy(
    file: ProgressFile, key: str, value: int
) -> None:
    file.save(FULL)
    expected = rf"engine\.minibatch\.{key} is {value}, but .* was made with {FIXED[key]}: set it back to {FIXED[key]}"
    with pytest.raises(InstallMismatch, match=expected):
        file.load(FIXED | {key: value})


def test_other_settings_may_change(file: ProgressFile) -> None:
    file.save(FULL)
    now = FIXED | {"window_size": "30s"}
    assert file.load(now) == replace(FULL, fixed=now)


def test_a_heartbeat_counts_if_it_is_newer(file: ProgressFile) -> None:
    file.save(FULL)
    file.beat(NOW_MS + 70)
    assert file.load(FIXED) == replace(FULL, alive_ms=NOW_MS + 70)
    file.beat(NOW_MS - 70)
    assert file.load(FIXED) == FULL


@pytest.mark.parametrize("text", [b"", b"\0\0\0\0", b"17000000x"])
def test_a_heartbeat_that_a_power_cut_spoilt_does_not_count(file: ProgressFile, tmp_path: Path, text: bytes) -> None:
    file.save(FULL)
    (tmp_path / "alive").write_bytes(text)
    assert file.load(FIXED) == FULL


def test_a_file_of_an_earlier_version_is_read(file: ProgressFile, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    file.save(FULL)
    content = json.loads(path.read_bytes())["progress"]
    for key in LATER:
        del content[key]
    crc32 = zlib.crc32(json.dumps(content, sort_keys=True).encode())
    path.write_text(json.dumps({"version": 1, "crc32": crc32, "progress": content}))
    assert file.load(FIXED) == replace(FULL, **LATER_FIELDS)


def test_a_damaged_file_is_never_read_as_something_else(file: ProgressFile, tmp_path: Path) -> None:
    file.save(FULL)
    path = tmp_path / "state.json"
    text = path.read_bytes()
    for at in range(len(text)):
        for damaged in (text[:at], text[:at] + bytes([text[at] ^ 1 << at % 7]) + text[at + 1 :]):
            path.write_bytes(damaged)
            try:
                assert file.load(FIXED) == FULL
            except (LogDamaged, InstallMismatch):
                continue


def test_a_kill_while_saving_leaves_the_old_or_the_new(file: ProgressFile, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from precompute.progress import *; from precompute.progress_file import *\n"
        "f = ProgressFile(pathlib.Path(sys.argv[1])); i = int(sys.argv[2])\n"
        "while True:\n"
        "    i += 1; f.save(Progress(i, i, i, i, fixed={'shards': 16})); f.beat(i); print(i, flush=True)\n"
    )
    last = 0
    for saves in (1, 7, 30, 61):
        command = [sys.executable, "-c", program, str(tmp_path / "state.json"), str(last)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(saves)]
            process.kill()
            lines += process.stdout.readlines()
        saved = int([line for line in lines if line.endswith(b"\n")][-1])
        loaded = file.load({"shards": 16})
        assert loaded is not None
        assert loaded.floor_ms == loaded.final_ms == loaded.base_ms
        assert loaded.floor_ms in (saved, saved + 1)
        assert loaded.alive_ms in (loaded.floor_ms, saved)
        last = saved


def test_a_save_that_fails_keeps_what_was_there(file: ProgressFile, tmp_path: Path) -> None:
    file.save(FULL)
    (tmp_path / "state.tmp").mkdir()
    with pytest.raises(OSError, match="directory"):
        file.save(replace(FULL, base_ms=77))
    assert file.load(FIXED) == FULL


# -- starting


def start(file: ProgressFile, *, log_is_empty: bool, now_ms: int = NOW_MS, has_upstream: bool = False) -> Progress:
    return open_progress(
        file,
        FIXED,
        log_is_empty=log_is_empty,
        now_ms=now_ms,
        acceptance_ms=ACCEPTANCE_MS,
        lateness_ms=LATENESS_MS,
        has_upstream=has_upstream,
    )


def test_a_start_without_anything_is_an_install_and_is_saved(file: ProgressFile) -> None:
    begun = start(file, log_is_empty=True)
    assert begun == replace(first_start(NOW_MS, ACCEPTANCE_MS, has_upstream=False), fixed=FIXED)
    assert file.load(FIXED) == begun


def test_a_log_without_progress_is_a_damaged_install(file: ProgressFile, caplog: pytest.LogCaptureFixture) -> None:
    assert start(file, log_is_empty=False).base_ms == NOW_MS
    assert "is missing beside a log" in caplog.text


@pytest.mark.parametrize("log_is_empty", [True, False])
def test_a_damaged_progress_is_kept_aside_and_is_no_new_install(
    file: ProgressFile, tmp_path: Path, log_is_empty: bool
) -> None:
    file.save(FULL)
    os.truncate(tmp_path / "state.json", 40)
    assert start(file, log_is_empty=log_is_empty).base_ms == NOW_MS
    assert (tmp_path / "state.damaged").stat().st_size == 40


def test_a_second_start_goes_on_and_saves_its_hole_at_once(file: ProgressFile) -> None:
    start(file, log_is_empty=True)
    file.beat(NOW_MS + 5000)
    begun = start(file, log_is_empty=False, now_ms=NOW_MS + 60_000)
    assert begun.holes == (Hole(NOW_MS + 5000, NOW_MS + 60_000),)
    assert (begun.base_ms, begun.alive_ms) == (0, NOW_MS + 60_000)
    assert file.load(FIXED) == begun


def test_an_upstream_that_is_new_has_what_was_refused_before(file: ProgressFile) -> None:
    begun = start(file, log_is_empty=True)
    file.save(replace(begun, refused_until_ms=NOW_MS - 7))
    assert start(file, log_is_empty=False).holes == ()
    for _ in range(2):
        progress = start(file, log_is_empty=False, has_upstream=True)
        assert (progress.holes, progress.refused_until_ms) == ((Hole(0, NOW_MS - 7),), 0)
