"""The port with users, tokens, limits and TLS: the whole program, asked and written to by real clients."""

import base64
import hashlib
import json
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password

from precompute.clock import SystemClock
from tests.certificates import self_signed
from tests.e2e.pair import FLUSH, prometheus_config
from tests.e2e.talking import FORM, SNAPPY, named
from tests.ingest.wire import encode_write_request, snappy
from tests.query.answering import Server, serving
from tests.running import ROOT, Answer, Program, asap, asap_config, http, poll_until, prometheus

Start = Callable[..., AbstractContextManager[Program]]

pytestmark = pytest.mark.e2e

PERMISSIONS = ("read", "write", "manage")
TOKEN = "a-token-of-a-test-that-is-long-enough-0123456789"
NOBODY: dict[str, str] = {}


def user(name: str, *permissions: str) -> dict[str, Any]:
    return {"name": name, "password_hash": make_password(f"{name}'s"), "permissions": list(permissions)}


def token(name: str, *permissions: str) -> dict[str, Any]:
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    return {"name": name, "token_hash": f"sha256:{digest}", "permissions": list(permissions)}


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def by(name: str) -> dict[str, str]:
    """The header of a user of these tests."""
    return basic(name, f"{name}'s")


BEARER = {"Authorization": f"Bearer {TOKEN}"}


def wrote(program: Program, headers: Mapping[str, str], metric: str = "x") -> Answer:
    now_ms = SystemClock().now_ms()
    body = snappy(encode_write_request([(named(metric), [(now_ms, 1.0)])]))
    return http(f"{program.url}/api/v1/write", body, {**SNAPPY, **headers})


def asked(program: Program, headers: Mapping[str, str], path: str = "/api/v1/query", **params: str) -> Answer:
    text = urllib.parse.urlencode(params or {"query": "1"})
    return http(f"{program.url}{path}?{text}", headers=headers)


def managed(program: Program, headers: Mapping[str, str]) -> Answer:
    return http(f"{program.url}/api/v1/aggregations", b"{}", {"Content-Type": "application/json", **headers})


def error_of(answer: Answer) -> tuple[int, str]:
    assert answer.json()["status"] == "error" and answer.json()["error"]
    return answer.status, answer.json()["errorType"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Users called as what they may do, and a token that may write and manage."""
    security = {"users": [user(p, p) for p in PERMISSIONS], "tokens": [token("bot", "write", "manage")]}
    with asap(tmp_path_factory.mktemp("guarded"), {"security": security, "ingest": {"self_scrape": True}}) as running:
        yield running


@pytest.mark.parametrize("name", PERMISSIONS)
def test_each_permission_opens_what_it_names_and_nothing_else(guarded: Program, name: str) -> None:
    got = [ask(guarded, by(name)).status for ask in (asked, wrote, managed)]
    opened = [200, 204, 400]  # an aggregation of nothing is let in, and refused for what it lacks
    assert got == [fine if p == name else 403 for p, fine in zip(PERMISSIONS, opened, strict=True)]


def test_a_token_opens_what_it_names(guarded: Program) -> None:
    assert [ask(guarded, BEARER).status for ask in (asked, wrote, managed)] == [403, 204, 400]


def test_a_query_may_be_a_post(guarded: Program) -> None:
    url = f"{guarded.url}/api/v1/query"
    assert http(url, b"query=1", {**FORM, **by("read")}).status == 200
    assert error_of(http(url, b"query=1", {**FORM, **by("write")})) == (403, "forbidden")


@pytest.mark.parametrize(
    "headers",
    [NOBODY, basic("read", "wrong"), basic("nobody", "read's"), {"Authorization": "Bearer wrong"}],
)
def test_nobody_else_gets_in(guarded: Program, headers: dict[str, str]) -> None:
    answer = asked(guarded, headers)
    assert error_of(answer) == (401, "unauthorized")
    assert {k.lower(): v for k, v in answer.headers.items()}["www-authenticate"].startswith('Basic realm="ASAP"')


def test_nothing_but_health_is_open(guarded: Program) -> None:
    assert [ask(guarded, NOBODY).status for ask in (wrote, managed)] == [401, 401]
    for path in ("/metrics", "/", "/api/v1/labels", "/api/v1/aggregations", "/api/v1/nothing", "/nothing"):
        assert asked(guarded, NOBODY, path).status == 401, path


def test_health_and_readiness_are_open(guarded: Program) -> None:
    assert [guarded.get(path).status for path in ("/-/healthy", "/-/ready")] == [200, 200]


def test_our_own_page_is_scraped_all_the_same(guarded: Program) -> None:
    def found() -> Any:
        return asked(guarded, by("read"), query='asap_head_series{job="asap"} and on (job) up == 1').json()["data"][
            "result"
        ]

    poll_until(found, 30, "our own metrics")


def test_refusals_are_counted(guarded: Program) -> None:
    asked(guarded, NOBODY)
    page = asked(guarded, by("read"), "/metrics").body.decode()
    counted = {line.split(" ")[0]: float(line.split(" ")[1]) for line in page.splitlines() if not line.startswith("#")}
    assert counted['asap_http_requests_refused_total{reason="unauthorized"}'] >= 1


def test_an_answer_before_the_body_was_read_does_not_harm_the_connection(guarded: Program) -> None:
    address = urllib.parse.urlsplit(guarded.url)
    with closing(socket.create_connection((str(address.hostname), address.port or 0))) as talking:
        talking.settimeout(10)
        talking.sendall(b"POST /api/v1/write HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\nhalf")
        assert talking.recv(12) == b"HTTP/1.1 401"


def test_guessing_is_slowed_down(asap_process: Start) -> None:
    with asap_process({"security": {"users": [user("ann", "read", "write")]}}) as running:
        statuses = [asked(running, basic("ann", f"guess {n}")).status for n in range(13)]
        assert statuses[:10] == [401] * 10
        assert 429 in statuses[10:]
        refused = wrote(running, basic("ann", "guess"))
        assert refused.status == 503
        assert int({k.lower(): v for k, v in refused.headers.items()}["retry-after"]) > 0


def test_requests_over_the_limit_are_told_to_wait(asap_process: Start) -> None:
    security = {"users": [user("ann", "read", "write"), user("bob", "read")], "requests_per_second": 1}
    with asap_process({"security": {**security, "request_burst": 5}}) as running:
        assert asked(running, by("bob")).status == 200, "verifies the password"
        answers: list[Answer] = []

        def refused() -> bool:
            answers.append(asked(running, by("ann")))
            # a sender would drop the batch on 429
            return answers[-1].status == 429 and wrote(running, by("ann")).status == 503

        poll_until(refused, 30, "both are refused before the next second's request is free", every_s=0)
        assert {answer.status for answer in answers} == {200, 429}
        assert error_of(answers[-1]) == (429, "limit")
        assert int({k.lower(): v for k, v in answers[-1].headers.items()}["retry-after"]) > 0
        assert asked(running, by("bob")).status == 200
        assert running.get("/-/healthy").status == 200


def test_without_clients_the_limit_is_the_addresss(asap_process: Start) -> None:
    with asap_process({"security": {"requests_per_second": 1, "request_burst": 3}}) as running:
        assert asked(running, NOBODY).status == 200
        poll_until(lambda: asked(running, NOBODY).status == 429, 30, "it is refused", every_s=0)


def test_our_passwords_are_not_shown_to_the_upstream(asap_process: Start) -> None:
    with serving() as behind:
        upstream = behind.url.replace("http://", "http://asap:between-us@")
        config = {
            "security": {"users": [user("ann", "read")]},
            "query_engine": {"prometheus_server": upstream},
        }
        with asap_process(config) as running:
            assert asked(running, by("ann"), query="not_here").status == 200
            assert credentials(behind) == basic("asap", "between-us")["Authorization"]


def credentials(server: Server) -> str | None:
    return {name.lower(): text for name, text in server.asked[-1][3].items()}.get("authorization")


def test_a_prometheus_writes_with_a_password(guarded: Program, prometheus_binary: str, tmp_path: Path) -> None:
    login = {"basic_auth": {"username": "write", "password": "write's"}}
    with prometheus(prometheus_binary, tmp_path, sending(guarded, "password", login), FLUSH):
        await_samples(guarded, "password", by("read"))


def test_a_prometheus_with_a_wrong_password_is_refused(
    asap_process: Start, prometheus_binary: str, tmp_path: Path
) -> None:
    login = {"basic_auth": {"username": "ann", "password": "wrong"}}
    with asap_process({"security": {"users": [user("ann", "read", "write")]}}) as running:
        assert not asked(running, by("ann"), query="up").json()["data"]["result"]
        with prometheus(prometheus_binary, tmp_path, sending(running, "wrong", login), FLUSH) as sender:
            poll_until(lambda: "401" in sender.log(), 30, "the sender says that it is refused")
        assert not asked(running, by("ann"), query="up").json()["data"]["result"]


def test_a_prometheus_writes_with_a_token_by_tls(
    asap_process: Start, prometheus_binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", files["cert_file"])
    security = {"tls": files, "tokens": [token("prometheus", "write", "read")]}
    with asap_process({"security": security, "ingest": {"self_scrape": True}}) as running:
        assert running.url.startswith("https://")
        assert f"ASAP listens on {running.url}" in running.log()
        assert f"curl -G -H 'Authorization: Bearer TOKEN' {running.url}/api/v1/query" in running.log()
        login = {"authorization": {"credentials": TOKEN}, "tls_config": {"ca_file": files["cert_file"]}}
        with prometheus(prometheus_binary, tmp_path / "sender", sending(running, "tls", login), FLUSH):
            await_samples(running, "tls", BEARER)
        assert asked(running, BEARER, query='up{job="asap"}').json()["data"]["result"][0]["value"][1] == "1"
        with pytest.raises((OSError, HTTPException)):  # what comes is a TLS alert
            http(running.url.replace("https://", "http://") + "/-/ready", timeout_s=5)
        assert healthcheck(running).returncode == 0
        assert running.stop() == 0
    assert healthcheck(running).returncode == 1


def test_the_container_finds_out_about_health_without_tls_too(guarded: Program) -> None:
    assert healthcheck(guarded).returncode == 0


def healthcheck(program: Program) -> "subprocess.CompletedProcess[bytes]":
    port = urllib.parse.urlsplit(program.url).port
    command = [sys.executable, str(ROOT / "deploy" / "healthcheck.py"), str(port)]
    return subprocess.run(command, capture_output=True, timeout=30, check=False)


def sending(program: Program, site: str, login: Mapping[str, Any]) -> str:
    return prometheus_config(program.url, {"prometheus": "127.0.0.1:__PORT__"}, {"site": site}, **login)


def await_samples(program: Program, site: str, headers: Mapping[str, str]) -> None:
    def found() -> Any:
        return asked(program, headers, query=f'up{{site="{site}"}}').json()["data"]["result"]

    poll_until(found, 30, f"samples of {site}")


def test_a_start_with_a_wrong_certificate_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    files = {"cert_file": str(tmp_path / "absent.crt"), "key_file": str(tmp_path / "absent.key")}
    _, path = asap_config(tmp_path, {"security": {"tls": files}})
    command = [sys.executable, str(ROOT / "manage.py"), "runasap", "--config", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("asap: security.tls.cert_file = ") and "cannot be read" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_open_port_is_warned_of_and_said_in_the_log(asap_process: Start) -> None:
    with asap_process({"query_engine": {"http_host": "0.0.0.0"}}) as running:
        log = running.log()
    assert "  warning                whoever reaches 0.0.0.0 may read, write and manage: " in log
    assert "WARNING asap_project.worker: whoever reaches 0.0.0.0 may read, write and manage: " in log


def test_what_hashpassword_prints_lets_its_user_in(asap_process: Start) -> None:
    printed = hashpassword("pass word\n").stdout.strip()
    made = dict(line.split() for line in hashpassword("", "--token").stdout.splitlines())
    security = {
        "users": [{"name": "ann", "password_hash": printed, "permissions": ["read"]}],
        "tokens": [{"name": "bot", "token_hash": made["token_hash:"], "permissions": ["read"]}],
    }
    with asap_process({"security": security, "query_engine": {"query_log_file": "-"}}) as running:
        assert asked(running, basic("ann", "pass word")).status == 200
        assert asked(running, {"Authorization": f"Bearer {made['token:']}"}).status == 200
        poll_until(lambda: all(f'"user":"{name}"' in running.log() for name in ("ann", "bot")), 30, "who asked")
        assert json.dumps(printed) not in running.log()


def test_no_password_is_no_hash() -> None:
    done = hashpassword("\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def hashpassword(typed: str, *flags: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "manage.py"), "hashpassword", *flags]
    return subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60, check=False)
