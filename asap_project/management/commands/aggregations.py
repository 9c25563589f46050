"""What is kept, and what for? Asks the running ASAP and prints a table."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from asap_project.config.units import size_text
from asap_project.management.asking import AskingCommand

_HEAD = ("id", "from", "every", "for", "groups", "panes", "bytes", "hits", "last used")
_NUMBERS = frozenset(("groups", "panes", "bytes", "hits"))


class Command(AskingCommand):
    help = "List what is kept: groups, panes, bytes, and the queries that it answered."

    def handle(self, *args: Any, **options: Any) -> None:
        found = self.ask("/api/v1/aggregations", options)
        if options["json"]:
            self.show_json(found)
            return
        for line in lines(found):
            self.stdout.write(line)


def lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The table; below each row what it keeps, and the last queries that it answered."""
    if not found:
        yield "nothing is kept"
        return
    rows = [_HEAD, *(_row(one) for one in found)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD))]
    for place, row in enumerate(rows):
        cells = (_cell(name, text, width) for name, text, width in zip(_HEAD, row, widths, strict=True))
        yield "  ".join(cells).rstrip()
        if place:
            yield f"    {_kept(found[place - 1])}"
            yield from (f"    answered {query}" for query in found[place - 1]["queries"])


def _cell(name: str, text: str, width: int) -> str:
    return text.rjust(width) if name in _NUMBERS else text.ljust(width)


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    last_s = one["last_used"]
    return (
        one["id"], _from(one), one["width"],
        one["retention"], f"{one['groups']:,}", f"{one['panes']:,}", size_text(one["bytes"]), f"{one['hits']:,}",
        "never" if last_s is None else f"{datetime.fromtimestamp(last_s, UTC):%Y-%m-%d %H:%M:%S} UTC",
    )  # fmt: skip


def _from(one: Mapping[str, Any]) -> str:
    pinned = ", pinned" if one["pinned"] and one["origin"] != "config" else ""
    return f"{one['origin']}{pinned}{'' if one['in_service'] else ', out of service'}"


def _kept(one: Mapping[str, Any]) -> str:
    word = "without" if "without" in one else "by"
    return f"{one['expr']} {word} ({', '.join(one[word])}): {', '.join(one['accumulators'])}"
