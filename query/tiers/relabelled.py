"""An upstream's answers with its external labels where they lack."""

from collections.abc import Sequence
from typing import Any

import orjson

from query.tiers.external_labels import ExternalLabels
from query.tiers.points import cut


def matrix(body: bytes, external: ExternalLabels) -> bytes:
    """A query's answer, with the labels put on each series; its points are copied as they stand.

    Raises ValueError, KeyError, TypeError or AttributeError for a body that is no such answer.
    """
    text, lists = cut(body)
    answer = orjson.loads(text)
    spans = [body[first:last] for first, last in lists.tolist()]
    data, envelope = answer.pop("data"), {"status": answer.pop("status"), **answer}
    result = b",".join(_series(one, spans, external) for one in data["result"])
    return b'%s,"data":{"resultType":%s,"result":[%s]}}' % (
        orjson.dumps(envelope)[:-1], orjson.dumps(data["resultType"]), result
    )  # fmt: skip


def _series(one: dict[str, Any], spans: Sequence[bytes], external: ExternalLabels) -> bytes:
    points = b',"values":' + spans[one.pop("values")] if "values" in one else b""
    one["metric"] = external.added_to(one["metric"])
    return orjson.dumps(one)[:-1] + points + b"}"


def series(data: Any, external: ExternalLabels) -> Any:
    """The `data` of /api/v1/series."""
    return [external.added_to(labels) for labels in data]


def exemplars(data: Any, external: ExternalLabels) -> Any:
    """The `data` of /api/v1/query_exemplars."""
    return [{**one, "seriesLabels": external.added_to(one["seriesLabels"])} for one in data]


def names(data: Any, external: ExternalLabels) -> Any:
    """The `data` of /api/v1/labels: whatever has a label has these too."""
    return sorted({*data, *external}) if data else data
