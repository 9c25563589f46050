"""Celery's settings, each with its reason.

Celery moves kicks: a message that is lost, late or doubled costs a tick at most. So nothing here makes messages safer;
what counts is that a worker which is connected consumes, and that no call to the broker waits for ever.
"""

import ssl
from typing import Any

from asap_project.config import Config

COMMON_QUEUE = "asap"
"""What any worker may do: placing, storing."""

_STORE_WINDOWS = 2
_HEARTBEATS_MS = 1500
"""A shard's `alive` moves once a second; a kick at the lateness exactly would find most panes not yet sealed."""


def celery_settings(config: Config) -> dict[str, Any]:
    """By their names in Django's settings."""
    cluster = config.mode == "cluster"
    given = {**_BOTH, "task_always_eager": not cluster, **(_of_cluster(config) if cluster else _SINGLE_NODE)}
    return {f"CELERY_{name.upper()}": value for name, value in given.items()}


_BOTH: dict[str, Any] = {
    "task_eager_propagates": False,
    "task_ignore_result": True,  # no kick has one
    "timezone": "UTC",
}
_SINGLE_NODE = {"broker_url": "memory://localhost/"}  # never asked

_TRANSPORT: dict[str, Any] = {
    # A message is gone once it is fetched. With acknowledgements it would be kept aside, and be given to another worker
    # after an hour, give or take 100 s: too late for a kick. The next one makes up for it.
    "ack_emulation": False,
    "priority_steps": [0],  # one Redis list a queue, not four
    # kombu overrides redis-py's 5 s by none, and then a publish waits for ever on a connection that is half open.
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
    "retry_on_timeout": False,  # the caller says when and how often: below, and the next kick
    # A fetch (BRPOP, 1 s) without an answer for 1 s more than this is dropped and the connection made anew.
    "health_check_interval": 5,
}

_WORKER: dict[str, Any] = {
    # One process: threads share heads and leases; kernels release the GIL. This pool knows no time limits, so a tick
    # ends at a deadline of its own, and a stuck one ends the process (precompute/cluster/watchdog.py).
    "worker_pool": "threads",
    # Early acknowledgement: a kick is not repeated, and the fetching loop hears at once that a thread is free. With
    # worker_disable_prefetch it hears of it at the next timer, and a worker makes one tick a second.
    "task_acks_late": False,
    "worker_prefetch_multiplier": 1,  # one message waits beside each that runs; the others stay for other workers
    "worker_disable_prefetch": False,
    # Nobody uses these, and each is a connection and a subscription that can break.
    "worker_enable_remote_control": False,
    "worker_send_task_events": False,
    "worker_enable_prefetch_count_reduction": False,  # after a reconnect, for late acknowledgements
    "worker_cancel_long_running_tasks_on_connection_loss": True,  # late ones only: here none, and no warning of it
    "worker_hijack_root_logger": False,  # logging is Django's LOGGING
    "worker_redirect_stdouts": False,
}

_BROKER: dict[str, Any] = {
    "broker_transport_options": _TRANSPORT,
    # A broker that is away is waited for: a worker that ends would lose its warm heads, and it ticks without one.
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "broker_channel_error_retry": True,  # a full or read-only Redis is one of those
    "task_publish_retry_policy": {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5},
    "task_default_queue": COMMON_QUEUE,
    "task_create_missing_queues": False,  # a worker's own is declared by who sends and who fetches (tasks.queue_of)
    # json alone: a message is numbers and names, and no broker can make a worker run what it unpickles.
    "task_serializer": "json",
    "accept_content": ["json"],
}

_SCHEDULER: dict[str, Any] = {
    # Kept in memory: what is due follows from the clock. A file of last runs could be stale, damaged, or shared by two.
    "beat_scheduler": "asap_project.scheduler:GridScheduler",
    "beat_max_loop_interval": 5,  # a clock that jumps is noticed within this
}


def _of_cluster(config: Config) -> dict[str, Any]:
    own = {
        "broker_url": config.redis.broker_url,
        "broker_use_ssl": _tls(config.redis.broker_url),
        "worker_concurrency": config.engine.minibatch.threads,
        "beat_schedule": _schedule(config),
    }
    return _BROKER | _WORKER | _SCHEDULER | own


def _tls(url: str) -> dict[str, Any] | bool:
    """kombu takes rediss:// for a wish that it be told what to verify."""
    return {"ssl_cert_reqs": ssl.CERT_REQUIRED} if url.startswith("rediss:") else False


def _schedule(config: Config) -> dict[str, Any]:
    """Placing once a window, as soon as its pane is sealed; storing less often and in between.

    No `expires`: it is a time by the sender's clock, judged by the receiver's. Messages say when they were made.
    """
    from asap_project.scheduler import Grid  # here: single nodes do without Celery's scheduler

    window_ms, lateness_ms = config.engine.minibatch.window_size, config.engine.minibatch.allowed_lateness
    sealed_ms = lateness_ms + _HEARTBEATS_MS
    return {
        "place": {"task": "precompute.tasks.place", "schedule": Grid(window_ms, sealed_ms)},
        "store": {
            "task": "precompute.tasks.store",
            "schedule": Grid(_STORE_WINDOWS * window_ms, sealed_ms + window_ms // 2),
        },
    }
