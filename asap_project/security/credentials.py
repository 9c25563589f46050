"""Who sends a request, by basic auth or a bearer token.

A password is short, so its hash is slow (scrypt, a quarter of a second): who reads the config cannot try many.
Each user's verified password is remembered, as a digest under a key that dies with the process, so that only
the first request pays. A token is 256 random bits, which nobody guesses, so a fast hash keeps it as well.
"""

import base64
import binascii
import hashlib
import hmac
import logging
import secrets
import threading
from collections.abc import Sequence

from django.contrib.auth.hashers import check_password

from asap_project.config.clients import Token, User
from asap_project.security.buckets import Buckets
from asap_project.security.errors import OverLimit, Unauthorized
from precompute.clock import Clock

WRONG_LOGINS = 10
"""Wrong logins of one address at once; then one in six seconds."""

LONGEST_PASSWORD = 4096

_TURN_S = 5.0
"""Longest wait for other passwords to be verified: one at a time, so that guessing takes one core at most."""

logger = logging.getLogger(__name__)

Client = User | Token


class Credentials:
    """The clients of the config. Any thread may call it."""

    def __init__(self, users: Sequence[User], tokens: Sequence[Token], clock: Clock) -> None:
        self._users = {user.name: user for user in users}
        self._tokens = {token.token_hash: token for token in tokens}
        self._wrong = Buckets(1 / 6, WRONG_LOGINS, clock, "too many wrong logins from this address")
        self._key, self._verified = secrets.token_bytes(32), dict[str, bytes]()
        self._turn = threading.Lock()
        self.challenge = ", ".join(
            [*(['Basic realm="ASAP", charset="UTF-8"'] if users else ()), *(['Bearer realm="ASAP"'] if tokens else ())]
        )
        """What `WWW-Authenticate` offers."""

    def client(self, authorization: str, address: str) -> Client:
        """Who this header belongs to. Raises Unauthorized, and OverLimit after too many wrong ones of an address."""
        scheme, _, given = authorization.strip().partition(" ")
        if scheme.lower() == "basic" and self._users:
            return self._by_password(*_name_and_password(given), address)
        if scheme.lower() == "bearer" and self._tokens:
            return self._by_token(given.strip(), address)
        raise Unauthorized("this needs a password or a token, and the request has none that is known here")

    def _by_token(self, token: str, address: str) -> Token:
        digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        found = self._tokens.get(f"sha256:{digest}")
        if found is None:
            self._wrong.take(address)
            logger.warning("a wrong token came from %s", address)
            raise Unauthorized("the token is not known")
        return found

    def _by_password(self, name: str, password: str, address: str) -> User:
        digest = hmac.digest(self._key, f"{name}:{password}".encode("utf-8", "replace"), "sha256")
        if not self._is_verified(name, digest) and not self._verify(name, password, digest, address):
            logger.warning("a wrong name or password came from %s", address)
            raise Unauthorized("the name or the password is wrong")
        return self._users[name]

    def _verify(self, name: str, password: str, digest: bytes, address: str) -> bool:
        """Slow; as slow for a name that nobody has, so that time does not tell which names are there."""
        if not self._turn.acquire(timeout=_TURN_S):
            raise OverLimit("too many passwords are being verified", 5)
        try:
            if self._is_verified(name, digest):
                return True  # meanwhile; all panels of a dashboard ask at once
            self._wrong.take(address)
            user = self._users.get(name) or next(iter(self._users.values()))
            if not check_password(password, user.password_hash) or user.name != name:
                return False
            self._wrong.give_back(address)
            self._verified[name] = digest
            return True
        finally:
            self._turn.release()

    def _is_verified(self, name: str, digest: bytes) -> bool:
        return hmac.compare_digest(self._verified.get(name, b""), digest)


def _name_and_password(given: str) -> tuple[str, str]:
    """RFC 7617. Raises Unauthorized for what is none."""
    try:
        name, colon, password = base64.b64decode(given.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        colon = ""
    if not colon or len(password) > LONGEST_PASSWORD:
        raise Unauthorized("the name and the password cannot be read")
    return name, password
