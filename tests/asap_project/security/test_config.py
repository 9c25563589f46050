"""`security` in the config: what is refused at the start, and what is warned of."""

from pathlib import Path
from typing import Any

import pytest

from asap_project.config import Config, ConfigError, load
from asap_project.config.derived import exposed
from asap_project.config.printing import shown
from tests.certificates import P256, of_version_1, openssl, self_signed

HASH = "scrypt$16384$9SVn9aNqT1JXicexsQTT7S$8$5$" + "a" * 86 + "=="
DIGEST = "sha256:" + "0" * 64


def refused(folder: Path, *flags: str) -> str:
    with pytest.raises(ConfigError) as error:
        load(list(flags), {}, folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_it_works(tmp_path: Path) -> None:
    users = [{"name": "ann", "password_hash": HASH, "permissions": ["read", "manage"]}]
    loaded = load(["--security.users", str(users)], {}, tmp_path)
    assert loaded.config.security.users[0].permissions == ("read", "manage")


@pytest.mark.parametrize(
    ("users", "line"),
    [
        ([{"name": "a", "password_hash": "hunter2", "permissions": ["read"]}],
         "[0].password_hash should be what `python manage.py hashpassword` prints"),
        ([{"name": "a", "password": "hunter2", "permissions": ["read"]}], "[0].password"),
        ([{"name": "a", "password_hash": HASH, "permissions": []}], "[0].permissions"),
        ([{"name": "a", "password_hash": HASH, "permissions": ["write", "write"]}], "[0].permissions"),
        ([{"name": "a", "password_hash": HASH, "permissions": ["admin"]}], "[0].permissions[0] should be 'read'"),
        ([{"name": "a:b", "password_hash": HASH, "permissions": ["read"]}], "[0].name"),
        ([{"name": "", "password_hash": HASH, "permissions": ["read"]}], "[0].name"),
        ([{"name": "a", "password_hash": HASH.replace("16384", "16383"), "permissions": ["read"]}], "password_hash"),
        ([{"name": "a", "password_hash": HASH, "permissions": ["read"]}] * 2, "[1].name a is taken"),
    ],
)  # fmt: skip
def test_a_user_that_is_none_is_one_line_without_the_secret(tmp_path: Path, users: Any, line: str) -> None:
    said = refused(tmp_path, "--security.users", str(users))
    assert line in said
    assert "hunter2" not in said and HASH[-20:] not in said


def test_a_token_may_not_have_a_users_name(tmp_path: Path) -> None:
    user = [{"name": "a", "password_hash": HASH, "permissions": ["read"]}]
    token = [{"name": "a", "token_hash": DIGEST, "permissions": ["read"]}]
    assert "[0].name a is taken" in refused(tmp_path, "--security.users", str(user), "--security.tokens", str(token))


def test_a_list_that_cannot_be_read_is_not_quoted(tmp_path: Path) -> None:
    assert "hunter2" not in refused(tmp_path, "--security.users", '[{"password_hash": "hunter2"')


def test_hashes_are_masked_when_printed() -> None:
    text = shown([{"name": "ann", "password_hash": HASH}, {"name": "bot", "token_hash": DIGEST}, {"token": 'a"b'}])
    assert text == '[{"name": "ann", "password_hash": ***}, {"name": "bot", "token_hash": ***}, {"token": ***}]'
    assert shown(f"[{{name: ann, password_hash: '{HASH}', permissions: [read]}}]").count("***") == 1


def tls(files: dict[str, str]) -> list[str]:
    return ["--security.tls.cert-file", files["cert_file"], "--security.tls.key-file", files["key_file"]]


@pytest.mark.parametrize("key", [P256, ("rsa:2048",), ("ed25519",), ("ec", "-pkeyopt", "ec_paramgen_curve:P-384")])
def test_usual_certificates_are_taken(tmp_path: Path, key: tuple[str, ...]) -> None:
    files = self_signed(tmp_path, key=key)
    assert load(tls(files), {}, tmp_path).config.security.tls.cert_file == files["cert_file"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    files = self_signed(tmp_path)
    absent = refused(tmp_path, *tls({**files, "cert_file": str(tmp_path / "absent")}))
    assert absent.startswith("security.tls.cert_file = ") and "cannot be read: No such file" in absent
    absent = refused(tmp_path, *tls({**files, "key_file": str(tmp_path)}))
    assert absent.startswith("security.tls.key_file = ") and "cannot be read: Is a directory" in absent


def test_a_certificate_without_its_key(tmp_path: Path) -> None:
    flags = tls(self_signed(tmp_path))
    assert "security.tls.key_file" in refused(tmp_path, *flags[:2])
    assert "security.tls.cert_file" in refused(tmp_path, *flags[2:])


@pytest.mark.parametrize("other", [P256, ("rsa:2048",)])
def test_another_certificates_key(tmp_path: Path, other: tuple[str, ...]) -> None:
    files = {**self_signed(tmp_path), "key_file": self_signed(tmp_path, "other", other)["key_file"]}
    assert "security.tls.key_file is not this certificate's key" in refused(tmp_path, *tls(files))


def test_a_key_with_a_passphrase(tmp_path: Path) -> None:
    files, locked = self_signed(tmp_path, key=("rsa:2048",)), str(tmp_path / "locked.key")
    openssl("rsa", "-in", files["key_file"], "-aes128", "-passout", "pass:x", "-out", locked)
    assert "without a passphrase" in refused(tmp_path, *tls({**files, "key_file": locked}))


def test_files_that_are_no_certificates(tmp_path: Path) -> None:
    files = self_signed(tmp_path)
    Path(files["cert_file"]).write_text("junk")
    assert "should be a certificate and its key, in PEM" in refused(tmp_path, *tls(files))


def test_certificates_that_the_server_would_give_up_on(tmp_path: Path) -> None:
    assert "X.509 version 1" in refused(tmp_path, *tls(of_version_1(tmp_path)))
    exotic = self_signed(tmp_path, "exotic", ("ec", "-pkeyopt", "ec_paramgen_curve:secp256k1"))
    assert "a key of a kind that TLS 1.3 does not use" in refused(tmp_path, *tls(exotic))


def listening(host: str, **security: Any) -> Config:
    return Config.model_validate({"query_engine": {"http_host": host}, "security": security})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_on_loopback_there_is_nothing_to_warn_of(host: str) -> None:
    assert exposed(listening(host)) == ()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_elsewhere_a_port_without_clients_and_tls_is_warned_of(host: str) -> None:
    user = {"name": "a", "password_hash": HASH, "permissions": ("read",)}
    files = {"cert_file": "a", "key_file": "b"}
    assert len(exposed(listening(host))) == 2
    assert [line for line in exposed(listening(host, users=[user])) if "security.tls" in line]
    assert [line for line in exposed(listening(host, tls=files)) if "security.users" in line]
    assert exposed(listening(host, users=[user], tls=files)) == ()
