"""Certificates made by openssl for tests."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

P256 = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def self_signed(folder: Path, name: str = "server", key: Sequence[str] = P256) -> dict[str, str]:
    """`security.tls` with a certificate for 127.0.0.1, its own authority; `key` as openssl's -newkey takes it."""
    files = {"cert_file": str(folder / f"{name}.crt"), "key_file": str(folder / f"{name}.key")}
    openssl(
        "req", "-x509", "-newkey", *key, "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", NAMES,
        "-keyout", files["key_file"], "-out", files["cert_file"],
    )  # fmt: skip
    return files


def of_version_1(folder: Path) -> dict[str, str]:
    """One as `openssl x509 -req` makes them without extensions."""
    request, files = folder / "old.csr", {"cert_file": str(folder / "old.crt"), "key_file": str(folder / "old.key")}
    openssl("req", "-new", "-newkey", *P256, "-nodes", "-subj", "/CN=localhost",
            "-keyout", files["key_file"], "-out", str(request))  # fmt: skip
    openssl("x509", "-req", "-in", str(request), "-signkey", files["key_file"], "-days", "2",
            "-out", files["cert_file"])  # fmt: skip
    return files


def openssl(*arguments: str) -> None:
    """Run it; a test that cannot is skipped, and fails in CI."""
    if shutil.which("openssl") is None:
        (pytest.fail if os.environ.get("CI") == "1" else pytest.skip)("needs the program openssl")
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
