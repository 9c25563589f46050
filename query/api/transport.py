"""What browsers and slow networks ask of every answer: cross-origin headers, and gzip where it is worth it."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from isal import igzip

from query.api.endpoint import parts_of

View = Callable[[HttpRequest], HttpResponse]

_API = "/api/v1/"
_WORTH_PACKING = 1024
"""Bytes from which on a body is packed; smaller ones fit into a network packet as they are."""

_NOT_AT_ALL = re.compile(r"\s*q\s*=\s*0(\.0*)?\s*", re.ASCII)

_CORS = {
    "Access-Control-Allow-Headers": "Accept, Authorization, Content-Type, Origin",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Expose-Headers": "Date, X-ASAP-Tier, X-ASAP-Bound",
}


def cross_origin(get_response: View) -> View:
    """Let web pages of the allowed origins read the API, and answer what their browsers ask beforehand.

    As Prometheus' --web.cors.origin (util/httputil/cors.go). It stands before what asks for credentials: browsers
    send none with the question.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith(_API):
            return get_response(request)
        response = HttpResponse(status=204) if request.method == "OPTIONS" else get_response(request)
        response.headers["Vary"] = "Origin, Accept-Encoding"
        if origin := request.META.get("HTTP_ORIGIN"):
            _allow(response, origin)
        return response

    return middleware


def _allow(response: HttpResponse, origin: str) -> None:
    for name, text in _CORS.items():
        response.headers[name] = text
    parts = parts_of()
    if parts is not None and (allowed := parts.origins.allowed(origin)):
        response.headers["Access-Control-Allow-Origin"] = allowed


def packed(get_response: View) -> View:
    """Answers in gzip for those who accept it."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if response.streaming or len(response.content) < _WORTH_PACKING or "Content-Encoding" in response.headers:
            return response
        response.headers.setdefault("Vary", "Accept-Encoding")
        if accepts_gzip(request.META):
            # level 1 is a third of the size in a third of zlib's time, and more saves little
            response.content = igzip.compress(response.content, 1, mtime=0)
            response.headers["Content-Encoding"] = "gzip"
        return response

    return middleware


def accepts_gzip(meta: Mapping[str, Any]) -> bool:
    """Whether Accept-Encoding names gzip, and not with a weight of nothing."""
    for offer in meta.get("HTTP_ACCEPT_ENCODING", "").split(","):
        name, _, weight = offer.partition(";")
        if name.strip().lower() in ("gzip", "x-gzip"):
            return not _NOT_AT_ALL.fullmatch(weight)
    return False
