"""Why is a query answered as it is? Asks the running ASAP and prints the plan as a tree."""

import urllib.parse
from typing import Any

from django.core.management.base import CommandParser

from asap_project.management.asking import AskingCommand


class Command(AskingCommand):
    help = "Explain how a query is answered: each part's tier and cost, and why no better tier served it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("query", metavar="QUERY", help="the PromQL expression")
        parser.add_argument("--time", help="when: seconds since the epoch or RFC 3339; now if absent")
        parser.add_argument("--start", help="of a range query, with --end and --step")
        parser.add_argument("--end")
        parser.add_argument("--step")
        parser.add_argument("--nocache", action="store_true", help="evaluate every step anew")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        body = self.ask("/api/v1/explain", options, _form(options))
        if options["json"]:
            self.show_json(body)
            return
        from query.explain import lines  # it brings the kernels, which --help does without

        for line in lines(body):
            self.stdout.write(line)


def _form(options: dict[str, Any]) -> bytes:
    asked = {name: options[name] for name in ("query", "time", "start", "end", "step") if options[name]}
    return urllib.parse.urlencode(asked | ({"nocache": "1"} if options["nocache"] else {})).encode()
