"""Why is a query answered as it is? Asks the running ASAP and prints the plan as a tree."""

import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import orjson
from django.core.management.base import CommandError, CommandParser

from asap_project.config.derived import own_url
from asap_project.management.command import ConfigCommand

_TIMEOUT_S = 130


class Command(ConfigCommand):
    help = "Explain how a query is answered: each part's tier and cost, and why no better tier served it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("query", metavar="QUERY", help="the PromQL expression")
        parser.add_argument("--time", help="when: seconds since the epoch or RFC 3339; now if absent")
        parser.add_argument("--start", help="of a range query, with --end and --step")
        parser.add_argument("--end")
        parser.add_argument("--step")
        parser.add_argument("--nocache", action="store_true", help="evaluate every step anew")
        parser.add_argument("--url", help="where ASAP listens; default: as configured")
        parser.add_argument(
            "--header", action="append", default=[], metavar="'NAME: VALUE'", help="sent along, such as Authorization"
        )
        parser.add_argument("--ca-file", help="PEM of whom to trust with https; default: the configured one")
        parser.add_argument("--json", action="store_true", help="as the API gives it")

    def handle(self, *args: Any, **options: Any) -> None:
        url = options["url"] or own_url(self.loaded.config)
        trusted = options["ca_file"] or self.loaded.config.security.tls.cert_file or None
        form, headers = _form(options), _headers(options["header"])
        body = _ask(f"{url.rstrip('/')}/api/v1/explain", form, headers, trusted)
        if options["json"]:
            self.stdout.write(orjson.dumps(body, option=orjson.OPT_INDENT_2).decode())
            return
        from query.explain import lines  # it brings the kernels, which --help does without

        for line in lines(body):
            self.stdout.write(line)


def _form(options: dict[str, Any]) -> bytes:
    asked = {name: options[name] for name in ("query", "time", "start", "end", "step") if options[name]}
    return urllib.parse.urlencode(asked | ({"nocache": "1"} if options["nocache"] else {})).encode()


def _headers(texts: list[str]) -> dict[str, str]:
    pairs = (text.partition(":") for text in texts)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _ask(url: str, form: bytes, headers: dict[str, str], trusted: str | None) -> Any:
    """What ASAP explains. Raises CommandError with the remedy."""
    try:
        context = ssl.create_default_context(cafile=trusted) if url.startswith("https:") else None
        request = urllib.request.Request(url, form, headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context) as answer:
            return orjson.loads(answer.read())["data"]
    except urllib.error.HTTPError as error:
        raise CommandError(f"{url}: {_told(error)}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise CommandError(f"{url} cannot be asked: {reason}. Start ASAP (make run), or say --url.") from None


def _told(error: urllib.error.HTTPError) -> str:
    try:
        return str(orjson.loads(error.read())["error"])
    except (ValueError, KeyError, TypeError):
        return f"status {error.code}"
