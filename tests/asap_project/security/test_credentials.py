"""Passwords and tokens: right ones, wrong ones, and what each costs."""

import base64
import hashlib
import threading

import pytest
from django.contrib.auth.hashers import make_password

from asap_project.config.clients import Token, User
from asap_project.security import credentials
from asap_project.security.credentials import WRONG_LOGINS, Credentials
from asap_project.security.errors import OverLimit, Unauthorized
from precompute.clock import ManualClock

HERE = "192.0.2.1"
TOKEN = "t" * 43


@pytest.fixture(scope="module")
def ann() -> User:
    return User(name="ann", password_hash=make_password("pass:wörd"), permissions=("read",))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0)


@pytest.fixture
def known(ann: User, clock: ManualClock) -> Credentials:
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    return Credentials([ann], [Token(name="bot", token_hash=f"sha256:{digest}", permissions=("write",))], clock)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords that were put through the slow hash."""
    hashed: list[str] = []
    really = credentials.check_password

    def check(password: str, encoded: str) -> bool:
        hashed.append(password)
        return bool(really(password, encoded))

    monkeypatch.setattr(credentials, "check_password", check)
    return hashed


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def test_it_works(known: Credentials, ann: User) -> None:
    assert known.client(basic("ann", "pass:wörd"), HERE) == ann
    assert known.client(f"bearer  {TOKEN}", HERE).name == "bot"


def test_a_verified_password_is_hashed_once(known: Credentials, slow: list[str]) -> None:
    for _ in range(20):
        known.client(basic("ann", "pass:wörd"), HERE)
    assert slow == ["pass:wörd"]


def test_who_asks_at_once_is_verified_once_and_never_over_the_limit(known: Credentials, slow: list[str]) -> None:
    seen: list[str] = []
    threads = [
        threading.Thread(target=lambda: seen.append(known.client(basic("ann", "pass:wörd"), HERE).name))
        for _ in range(3 * WRONG_LOGINS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["ann"] * len(threads)
    assert len(slow) == 1


@pytest.mark.parametrize(
    "header",
    [
        "", "Basic", "Basic ", "Basic !!!", "Basic YQ==", "Digest YQ==", "Bearer", "Bearer x", "Bearer \ud800",
        "Basic " + base64.b64encode(b"ann:\xff").decode(),
        basic("ann", "wrong"), basic("ANN", "pass:wörd"), basic("", ""), basic("ann", ""), basic("bob", "pass:wörd"),
        basic("ann", "x" * 5000), basic("bot", TOKEN),
    ],
)  # fmt: skip
def test_anything_else_is_refused(known: Credentials, header: str) -> None:
    with pytest.raises(Unauthorized):
        known.client(header, HERE)


def test_a_wrong_password_is_not_remembered_as_the_right_one(known: Credentials) -> None:
    known.client(basic("ann", "pass:wörd"), HERE)
    with pytest.raises(Unauthorized):
        known.client(basic("ann", "wrong"), HERE)


def test_an_unknown_name_costs_a_hash_too(known: Credentials, slow: list[str]) -> None:
    with pytest.raises(Unauthorized):
        known.client(basic("nobody", "x"), HERE)
    assert slow == ["x"]


def test_after_too_many_wrong_logins_an_address_is_not_even_hashed(
    known: Credentials, slow: list[str], clock: ManualClock
) -> None:
    for _ in range(WRONG_LOGINS):
        with pytest.raises(Unauthorized):
            known.client(basic("ann", "guess"), HERE)
    with pytest.raises(OverLimit):
        known.client(basic("ann", "guess"), HERE)
    with pytest.raises(OverLimit):
        known.client("Bearer guess", HERE)
    assert len(slow) == WRONG_LOGINS
    assert known.client(f"Bearer {TOKEN}", HERE).name == "bot"
    assert known.client(basic("ann", "pass:wörd"), "192.0.2.2").name == "ann"
    assert known.client(basic("ann", "pass:wörd"), HERE).name == "ann", "verified already"
    clock.advance(7_000)
    with pytest.raises(Unauthorized):
        known.client(basic("ann", "guess"), HERE)


def test_without_users_no_password_is_looked_at(clock: ManualClock) -> None:
    with pytest.raises(Unauthorized):
        Credentials([], [], clock).client(basic("ann", "x"), HERE)


def test_the_challenge_offers_what_the_config_has(ann: User, known: Credentials, clock: ManualClock) -> None:
    assert known.challenge == 'Basic realm="ASAP", charset="UTF-8", Bearer realm="ASAP"'
    assert Credentials([ann], [], clock).challenge == 'Basic realm="ASAP", charset="UTF-8"'
