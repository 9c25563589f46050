"""The two roles of a cluster that are Celery's, as `runasap --component` starts them.

`celery -A asap_project worker` and `celery -A asap_project beat` start the same.
"""

import sys

from asap_project.config import Config

REFUSAL = (
    "asap: mode = single-node: everything runs inside `python manage.py runasap`, so there is nothing for {role} "
    "to do; start that instead, and no Celery process"
)


def run_worker(config: Config) -> int:
    """Summarise shards until SIGTERM; the exit code. For the main thread, which gets the signals."""
    refuse_single_node(config, "a streaming worker")
    from asap_project.celery import app

    worker = app.Worker()
    worker.start()
    return int(worker.exitcode or 0)


def run_scheduler(config: Config) -> int:
    """Send what is due until SIGTERM; the exit code. For the main thread, which gets the signals."""
    refuse_single_node(config, "a scheduler")
    from asap_project.celery import app

    app.Beat(quiet=True).run()
    return 0


def refuse_single_node(config: Config, role: str) -> None:
    """Exit code 2 and the remedy, where there is no cluster."""
    if config.mode == "single-node":
        print(REFUSAL.format(role=role), file=sys.stderr)
        raise SystemExit(2)
