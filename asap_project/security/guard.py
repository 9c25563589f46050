"""What every request passes before it is looked at, where the config has clients or limits."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter

from asap_project.config.schema import Security
from asap_project.security.buckets import Buckets
from asap_project.security.credentials import Credentials
from asap_project.security.errors import Forbidden
from asap_project.security.permissions import needed
from precompute.clock import Clock


class SecurityMetrics:
    """The metrics, registered with the registry that is handed in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.refused = Counter(
            "asap_http_requests_refused_total",
            "Requests refused by the port's security: unauthorized, forbidden or over a limit.",
            ["reason"],
            registry=registry,
        )
        for reason in ("unauthorized", "forbidden", "limit"):
            self.refused.labels(reason)


@dataclass(frozen=True)
class Guard:
    """credentials: None where everybody may do everything. requests: None where there is no limit."""

    credentials: Credentials | None
    requests: Buckets | None
    metrics: SecurityMetrics

    def admit(self, method: str, path: str, authorization: str, address: str) -> str | None:
        """Let a request pass and say by whose name, if it has one. Raises Refused."""
        permission = needed(method, path)
        if permission is None:
            return None
        client = self.credentials.client(authorization, address) if self.credentials else None
        name = client.name if client else None
        if self.requests:
            self.requests.take(name or address)
        if client and permission not in client.permissions:
            raise Forbidden(f"{client.name} has no permission to {permission}")
        return name


def guard_of(security: Security, clock: Clock, registry: CollectorRegistry) -> Guard:
    """The guard that the config asks for."""
    clients = security.users or security.tokens
    credentials = Credentials(security.users, security.tokens, clock) if clients else None
    per_s = security.requests_per_second
    what = f"more than {per_s} requests a second (security.requests_per_second)"
    requests = Buckets(per_s, security.request_burst, clock, what) if per_s else None
    return Guard(credentials, requests, SecurityMetrics(registry))
