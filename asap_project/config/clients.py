"""Who may use the port: users with a password, and tokens of programs."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from asap_project.config.items import unique

Permission = Literal["read", "write", "manage"]

_NAME = re.compile(r"[^\s:\"\\]{1,64}")
_PASSWORD_HASH = re.compile(r"scrypt\$16384\$[^$\s]{8,64}\$8\$([1-9]|1[0-6])\$[A-Za-z0-9+/]{86}==")
_TOKEN_HASH = re.compile("sha256:[0-9a-f]{64}")


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("should be a name of 1 to 64 characters without spaces, colons, quotes and backslashes")
    return text


def _password_hash(text: str) -> str:
    if not _PASSWORD_HASH.fullmatch(text):
        raise ValueError("should be what `python manage.py hashpassword` prints")
    return text


def _token_hash(text: str) -> str:
    if not _TOKEN_HASH.fullmatch(text):
        raise ValueError("should be what `python manage.py hashpassword --token` prints")
    return text


Name = Annotated[str, AfterValidator(_name)]
Permissions = Annotated[tuple[Permission, ...], AfterValidator(unique)]


class User(BaseModel):
    """One who logs in with a name and a password, as browsers and data sources do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    password_hash: Annotated[str, AfterValidator(_password_hash)]
    permissions: Permissions = Field(min_length=1)


class Token(BaseModel):
    """A program that sends a bearer token; the name stands for it in logs and limits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    token_hash: Annotated[str, AfterValidator(_token_hash)]
    permissions: Permissions = Field(min_length=1)
