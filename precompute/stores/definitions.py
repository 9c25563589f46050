"""Definitions of aggregations in the database, through Django's ORM; one row each, its content as JSON.

And when a cluster's install began, or which single node's the database is.
"""

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict

import orjson
from django.db import transaction
from django.db.models import QuerySet
from django.db.utils import IntegrityError

from precompute.definitions import Definition, Settle
from precompute.models import AggregationDefinition, Install, NodeInstall
from precompute.stores.asking import asking

logger = logging.getLogger(__name__)

_STARTING_MS = 60_000
_WHAT = "definitions"
_MOST_TRIES = 10
"""Each that fails says that another process has made one of the rows meanwhile."""


class DatabaseDefinitions:
    """A DefinitionStore on the database that Django calls `using`."""

    def __init__(self, using: str = "default") -> None:
        self._using = using

    def definitions(self) -> tuple[Definition, ...]:
        with asking(self._using, _WHAT):
            rows = list(self._rows().order_by("aggregation_id").values_list("aggregation_id", "content"))
        return tuple(read for name, content in rows if (read := _read(name, bytes(content))) is not None)

    def change(self, names: Collection[str], settle: Settle) -> Mapping[str, Definition]:
        with asking(self._using, _WHAT):
            for _ in range(_MOST_TRIES - 1):
                with suppress(IntegrityError):
                    return self._change(names, settle)
            return self._change(names, settle)

    def _change(self, names: Collection[str], settle: Settle) -> Mapping[str, Definition]:
        """Raises IntegrityError where a row was made after we looked: it could not be locked then."""
        with transaction.atomic(using=self._using):
            locked = self._rows().select_for_update().filter(aggregation_id__in=list(names)).order_by("aggregation_id")
            read = {name: _read(name, bytes(content)) for name, content in locked.values_list("pk", "content")}
            found = {name: one for name, one in read.items() if one is not None}
            after = settle(found)
            self._rows().filter(aggregation_id__in=found.keys() - after.keys()).delete()
            for name, one in sorted(after.items()):
                content = orjson.dumps(asdict(one))
                if name not in read:
                    self._rows().create(aggregation_id=name, content=content)
                elif one != read[name]:
                    self._rows().filter(aggregation_id=name).update(content=content)
        return after

    def _rows(self) -> "QuerySet[AggregationDefinition]":
        return AggregationDefinition.objects.using(self._using)


class DatabaseInstall:
    """When the install began, in the database that Django calls `using`. Methods raise StoreError."""

    def __init__(self, using: str = "default") -> None:
        self._using = using

    def is_new(self, now_ms: int) -> bool:
        """Whether it begins now: of several processes that start together each finds it so."""
        with asking(self._using, _WHAT):
            begun = Install.objects.using(self._using).order_by("pk").first()
        return begun is None or now_ms - begun.begun_ms < _STARTING_MS

    def begin(self, now_ms: int) -> None:
        """From now on it is there; what was said first stays."""
        with asking(self._using, _WHAT):
            Install.objects.using(self._using).get_or_create(pk=1, defaults={"begun_ms": now_ms})

    def claim(self, install_id: str) -> str:
        """Let the database be this single node's if it is nobody's; whose it is then."""
        with asking(self._using, _WHAT):
            nodes = NodeInstall.objects.using(self._using)
            return nodes.get_or_create(pk=1, defaults={"install_id": install_id})[0].install_id


def _read(name: str, content: bytes) -> Definition | None:
    try:
        read = orjson.loads(content)
        return Definition(**{**read, "labels": tuple(read["labels"]), "accumulators": tuple(read["accumulators"])})
    except (ValueError, TypeError, KeyError) as error:
        logger.error("the definition of aggregation %s cannot be read and is left out: %s", name, error)
        return None
