"""The two roles of a cluster that are Celery's, as `runasap --component` starts them.

`celery -A asap_project worker` and `celery -A asap_project beat` start the same.
"""

import sys

from asap_project.config import Config

REFUSAL = (
    "asap: mode = single-node: everything runs inside `python manage.py runasap`, so there is nothing for {role} "
    "to do; start that instead, and no Celery process"
)


def run_worker(config: Config) -> None:
    """Summarise shards until SIGTERM. For the main thread, which gets the signals.

    Raises SystemExit where it could not start or did not end well.
    """
    refuse_single_node(config, "a streaming worker")
    from asap_project.celery import app

    worker = app.Worker(config=config)
    worker.start()
    if worker.exitcode:
        raise SystemExit(worker.exitcode)


def run_scheduler(config: Config) -> None:
    """Send what is due until SIGTERM. For the main thread, which gets the signals."""
    refuse_single_node(config, "a scheduler")
    from asap_project.celery import app

    app.Beat(config=config, quiet=True).run()


def refuse_single_node(config: Config, role: str) -> None:
    """Exit code 2 and the remedy, where there is no cluster."""
    if config.mode == "single-node":
        print(REFUSAL.format(role=role), file=sys.stderr)
        raise SystemExit(2)
