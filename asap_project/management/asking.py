"""What commands share that ask a running ASAP over HTTP."""

import ssl
import urllib.error
import urllib.request
from typing import Any

import orjson
from django.core.management.base import CommandError, CommandParser

from asap_project.config.derived import own_url
from asap_project.management.command import ConfigCommand

_TIMEOUT_S = 130


class AskingCommand(ConfigCommand):
    """A command with the flags that say whom to ask, and as whom."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", help="where ASAP listens; default: as configured")
        parser.add_argument(
            "--header", action="append", default=[], metavar="'NAME: VALUE'", help="sent along, such as Authorization"
        )
        parser.add_argument("--ca-file", help="PEM of whom to trust with https; default: the configured one")
        parser.add_argument("--json", action="store_true", help="as the API gives it")

    def ask(self, path: str, options: dict[str, Any], form: bytes | None = None) -> Any:
        """The data of the answer to a GET, or to a POST of a form. Raises CommandError with the remedy."""
        config = self.loaded.config
        base = options["url"] or own_url(config)
        trusted = options["ca_file"] or config.security.tls.cert_file or None
        return _ask(f"{base.rstrip('/')}{path}", form, _headers(options["header"]), trusted)

    def show_json(self, data: Any) -> None:
        self.stdout.write(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())


def _headers(texts: list[str]) -> dict[str, str]:
    pairs = (text.partition(":") for text in texts)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _ask(url: str, form: bytes | None, headers: dict[str, str], trusted: str | None) -> Any:
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
