"""Progress on disk.

    state.json   all of it; replaced as a whole and synced, so it is never older than what was acted upon
    alive        the last heartbeat in milliseconds; replaced each second, not synced

A power cut can take the newest heartbeats, or leave `alive` empty. Then an older one counts, which makes the
hole of the stop longer, never shorter.
"""

import json
import logging
import os
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from precompute.errors import InstallMismatch, LogDamaged
from precompute.log.base import Hole
from precompute.log.segment import sync_folder
from precompute.progress import Constant, Progress, after_loss, beside_upstream, first_start, restarted

logger = logging.getLogger(__name__)

VERSION = 1

NEVER_CHANGES = {"shards": "engine.minibatch.shards", "hash_seed": "engine.minibatch.hash_seed"}
"""Settings that stay as they were at install, and their options. Others may change between starts: the floor
only rises, so a longer acceptance age lets in nothing that is settled, and a longer reach meets `base`."""


class ProgressFile:
    """The files `state.json` and `alive` in one folder."""

    def __init__(self, path: Path) -> None:
        """path: of `state.json`; `alive` lies beside it."""
        self.path, self._alive = path, path.with_name("alive")

    def load(self, fixed: Mapping[str, Constant]) -> Progress | None:
        """What was saved last, with the settings of now; None where nothing ever was.

        Raises InstallMismatch if a setting differs that never changes, LogDamaged if the file cannot be read
        as what was saved.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LogDamaged(f"cannot read {self.path}: {error.strerror}") from error
        progress = _parse(text, self.path)
        self._check(progress.fixed or {}, fixed)
        return replace(progress, fixed=dict(fixed), alive_ms=max(progress.alive_ms, self._heartbeat()))

    def save(self, progress: Progress) -> None:
        """Make this survive a power cut before returning. Raises OSError; what was saved before is then kept."""
        replace_file(self.path, _text(progress), durable=True)

    def beat(self, alive_ms: int) -> None:
        """Note that the node listens at `alive_ms` and that its log was synced before. Raises OSError."""
        replace_file(self._alive, str(alive_ms).encode(), durable=False)

    def set_aside(self) -> Path:
        """Move a damaged file out of the way; where it is now."""
        aside = self.path.with_suffix(".damaged")
        os.replace(self.path, aside)
        return aside

    def _heartbeat(self) -> int:
        try:
            return int(self._alive.read_bytes())
        except (FileNotFoundError, ValueError):
            return 0

    def _check(self, stored: Mapping[str, Constant], now: Mapping[str, Constant]) -> None:
        for key, option in NEVER_CHANGES.items():
            if key in now and stored.get(key) != now[key]:
                raise InstallMismatch(
                    f"{option} is {now[key]}, but {self.path.parent} was made with {stored.get(key)}: "
                    f"set it back to {stored.get(key)}, or use another data_dir"
                )


def open_progress(
    file: ProgressFile,
    fixed: Mapping[str, Constant],
    *,
    log_is_empty: bool,
    now_ms: int,
    acceptance_ms: int,
    lateness_ms: int,
    has_upstream: bool,
) -> Progress:
    """The progress a starting node begins with, already saved.

    A log with entries but no progress, or a damaged progress, is a damaged install and not a new one: it is
    complete only from now on. Raises InstallMismatch, and OSError where it cannot be saved.
    """
    try:
        stored = file.load(fixed)
    except LogDamaged as damage:
        logger.error("%s; kept in %s. Answers rest on samples from now on only", damage, file.set_aside())
        progress = after_loss(now_ms, acceptance_ms)
    else:
        if stored is not None:
            progress = restarted(stored, now_ms, lateness_ms)
            progress = beside_upstream(progress) if has_upstream else progress
        elif log_is_empty:
            progress = first_start(now_ms, acceptance_ms, has_upstream)
        else:
            logger.error("%s is missing beside a log. Answers rest on samples from now on only", file.path)
            progress = after_loss(now_ms, acceptance_ms)
    progress = replace(progress, fixed=dict(fixed))
    file.save(progress)
    return progress


def _text(progress: Progress) -> bytes:
    content: dict[str, Any] = {
        "floor_ms": progress.floor_ms,
        "final_ms": progress.final_ms,
        "base_ms": progress.base_ms,
        "alive_ms": progress.alive_ms,
        "holes": [[hole.after_ms, hole.until_ms, hole.metric] for hole in progress.holes],
        "histogram_metrics": sorted(progress.histogram_metrics),
        "partial_metrics": sorted(progress.partial_metrics),
        "received_since": dict(progress.received_since),
        "refused_until_ms": progress.refused_until_ms,
        "entries": [progress.first_entry, progress.last_entry],
        "fixed": dict(progress.fixed or {}),
    }
    return json.dumps({"version": VERSION, "crc32": _checksum(content), "progress": content}, indent=1).encode()


def _checksum(content: object) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def _parse(text: bytes, path: Path) -> Progress:
    try:
        stored = json.loads(text)
        version, content = stored["version"], stored["progress"]
        if version == VERSION and stored["crc32"] == _checksum(content):
            return _progress(content)
    except (ValueError, KeyError, TypeError) as error:
        raise LogDamaged(f"{path} is damaged: {error}") from error
    if version != VERSION:
        raise InstallMismatch(f"{path} was written by another version (format {version}, this one reads {VERSION})")
    raise LogDamaged(f"{path} is damaged: its checksum is wrong")


def _progress(content: dict[str, Any]) -> Progress:
    first_entry, last_entry = content.get("entries", (0, 0))  # files of earlier versions have none
    return Progress(
        floor_ms=content["floor_ms"],
        final_ms=content["final_ms"],
        base_ms=content["base_ms"],
        alive_ms=content["alive_ms"],
        holes=tuple(Hole(*hole) for hole in content["holes"]),
        histogram_metrics=frozenset(content["histogram_metrics"]),
        partial_metrics=frozenset(content["partial_metrics"]),
        received_since=content["received_since"],
        refused_until_ms=content.get("refused_until_ms", 0 if content["received_since"] else content["floor_ms"]),
        first_entry=first_entry,
        last_entry=last_entry,
        fixed=content["fixed"],
    )


def replace_file(path: Path, text: bytes, durable: bool) -> None:
    """Put a file with this text in its place as a whole; `durable`: it survives a power cut. Raises OSError."""
    unnamed = path.with_suffix(".tmp") if path.suffix else path.with_name(path.name + ".tmp")
    with open(unnamed, "wb") as file:
        file.write(text)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    os.replace(unnamed, path)
    if durable:
        sync_folder(path.parent)
