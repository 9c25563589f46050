"""Ends with 0 while the ASAP of this container is healthy, by TLS or without: `healthcheck.py [PORT]`."""

import ssl
import sys
import urllib.request
from http.client import HTTPException

PORT = sys.argv[1] if len(sys.argv) > 1 else "8088"
UNVERIFIED = ssl.create_default_context()
UNVERIFIED.check_hostname = False  # the certificate is for the name that clients use
UNVERIFIED.verify_mode = ssl.CERT_NONE


def is_healthy(scheme: str) -> bool:
    url = f"{scheme}://127.0.0.1:{PORT}/-/healthy"
    try:
        with urllib.request.urlopen(url, timeout=2, context=UNVERIFIED) as answer:
            return bool(answer.status == 200)
    except (OSError, HTTPException):
        return False


raise SystemExit(0 if is_healthy("http") or is_healthy("https") else 1)
