"""Values as they may be printed: as in the file, without credentials."""

import json
import re
from typing import Any

_CREDENTIALS = re.compile(r"(?i)(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^\s/?#@:\"]*)(?P<password>:[^\s\"]*)?@")
_SECRET_FIELD = re.compile(
    r"""(?ix) (?P<name>["']?(password|token)(_hash)?["']?\s*:\s*) ("(\\.|[^"\\])*"|'[^']*'|[^\s,}\]"']+)"""
)
_PASSWORD_FIELD = re.compile(r"(?i)(?P<name>pass(word|wd)?=)[^&\s\"]+")


def shown(value: Any) -> str:
    """A value as it may be printed: lists as JSON, credentials in URLs masked."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return mask(text) or '""'


def mask(text: str) -> str:
    """`http://user:secret@host` as `http://user:***@host`; a lone user may be a token and is masked too.

    A hash is masked too: it lets its reader guess as fast as they can.
    """
    text = _SECRET_FIELD.sub(r"\g<name>***", text)
    text = _CREDENTIALS.sub(lambda m: f"{m['scheme']}{m['user'] + ':' if m['password'] else ''}***@", text)
    return _PASSWORD_FIELD.sub(r"\g<name>***", text)
