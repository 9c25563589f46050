"""`python manage.py hashpassword`: what stands in security.users and security.tokens."""

import getpass
import hashlib
import secrets
import sys
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.hashers import make_password
from django.core.management.base import BaseCommand

from asap_project.security.credentials import LONGEST_PASSWORD


class Command(BaseCommand):
    help = "Print the hash of a password, which is asked for or read from a pipe; with --token, a new token and its."
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--token", action="store_true", help="make a token: 256 random bits")

    def handle(self, *args: Any, **given: Any) -> None:
        if given["token"]:
            token = secrets.token_urlsafe(32)
            self.stdout.write(f"token:      {token}")
            self.stdout.write(f"token_hash: sha256:{hashlib.sha256(token.encode()).hexdigest()}")
            return
        self.stdout.write(make_password(_password()))


def _password() -> str:
    """From a terminal twice, from a pipe its first line. Exits with 2 and a line where there is none to hash."""
    if sys.stdin.isatty():
        password = getpass.getpass("password: ")
        if getpass.getpass("again: ") != password:
            _give_up("the two are not the same")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not 0 < len(password) <= LONGEST_PASSWORD:
        _give_up(f"a password of 1 to {LONGEST_PASSWORD} characters is needed")
    return password


def _give_up(line: str) -> None:
    print(f"asap: {line}", file=sys.stderr)
    raise SystemExit(2)
