"""A log that holds less than a node remembers of it: what was lost is found out when the node starts."""

import logging
from dataclasses import replace

from precompute.log.files import FileSampleLog
from precompute.progress import Progress, add_holes, trimmed
from precompute.progress_file import ProgressFile

logger = logging.getLogger(__name__)


def note_losses(file: ProgressFile, progress: Progress, log: FileSampleLog) -> Progress:
    """The progress beside this log, already saved. A log that is gone as a whole is complete only from now on.

    Raises OSError where it cannot be saved.
    """
    lost = log.lost(progress.first_entry, progress.last_entry, progress.base_ms)
    if not lost:
        return progress
    if log.last_id():
        progress = add_holes(progress, lost)
    else:
        logger.error("the sample log beside %s is gone. Answers rest on samples from now on only", file.path)
        progress = trimmed(progress, lost[0].until_ms)
    progress = replace(progress, first_entry=log.first_id(progress.base_ms))
    file.save(progress)
    return progress
