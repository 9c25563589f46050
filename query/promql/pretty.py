"""Queries as Prometheus formats them: in one line up to 100 bytes, else broken and indented.

The rules are those of promql/parser/prettier.go and printer.go.
"""

import re
from collections.abc import Iterator, Sequence

from query.numbers import general
from query.promql.tree import Tree

_LONGEST_LINE = 100
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_ESCAPES |= {"\\": "\\\\", '"': '\\"'}
_WHOLE_ONLY = (("y", 31_536_000_000), ("w", 604_800_000))
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def pretty(node: Tree, level: int = 0) -> str:
    """The formatted text of a tree; `level` is how far a new line is indented, 0 where none was begun."""
    indent, line = "  " * level, text_of(node)
    if node["type"] == "unaryExpr":
        return f"{indent}{node['op']}{pretty(node['expr'], level).strip()}"
    if node["type"] in _BROKEN and len(line.encode()) > _LONGEST_LINE:
        return _broken(node, level, indent)
    return line if node["type"] == "subquery" else indent + line


_BROKEN = frozenset(("aggregation", "binaryExpr", "call", "parenExpr", "subquery"))
"""What is split into lines where it is too long."""


def _broken(node: Tree, level: int, indent: str) -> str:
    match node["type"]:
        case "aggregation":
            parameter = f"{pretty(node['param'], level + 1)},\n" if node["param"] else ""
            return f"{indent}{_operator(node)}(\n{parameter}{pretty(node['expr'], level + 1)}\n{indent})"
        case "call":
            arguments = ",\n".join(pretty(arg, level + 1) for arg in node["args"])
            return f"{indent}{node['func']['name']}(\n{arguments}\n{indent})"
        case "parenExpr":
            return f"{indent}(\n{pretty(node['expr'], level + 1)}\n{indent})"
        case "subquery":
            return pretty(node["expr"], level) + _subquery_suffix(node)
    left, right = pretty(node["lhs"], level + 1), pretty(node["rhs"], level + 1)
    return f"{left}\n{indent}{_sign(node)}\n{right}"


def text_of(node: Tree) -> str:
    """A tree in one line."""
    match node["type"]:
        case "numberLiteral":
            return str(node["val"])
        case "stringLiteral":
            return _quoted(node["val"])
        case "parenExpr":
            return f"({text_of(node['expr'])})"
        case "unaryExpr":
            return f"{node['op']}{text_of(node['expr'])}"
        case "vectorSelector":
            return _selector(node) + _shift(node)
        case "matrixSelector":
            return f"{_selector(node)}[{_duration(node['range'])}]{_shift(node)}"
        case "subquery":
            return text_of(node["expr"]) + _subquery_suffix(node)
        case "call":
            return f"{node['func']['name']}({', '.join(map(text_of, node['args']))})"
        case "aggregation":
            parameter = f"{text_of(node['param'])}, " if node["param"] else ""
            return f"{_operator(node)}({parameter}{text_of(node['expr'])})"
    return f"{text_of(node['lhs'])} {_sign(node)} {text_of(node['rhs'])}"


def _operator(node: Tree) -> str:
    if not node["grouping"] and not node["without"]:
        return str(node["op"])
    return f"{node['op']} {'without' if node['without'] else 'by'} ({_names(node['grouping'])}) "


def _sign(node: Tree) -> str:
    return f"{node['op']}{' bool' if node['bool'] else ''}{''.join(_pairing(node['matching']))}"


def _pairing(matching: Tree | None) -> Iterator[str]:
    if matching is None:
        return
    side = {"many-to-one": "left", "one-to-many": "right"}.get(matching["card"])
    if matching["labels"] or matching["on"] or side:
        yield f" {'on' if matching['on'] else 'ignoring'} ({_names(matching['labels'])})"
    if side:
        yield f" group_{side} ({_names(matching['include'])})"
    left, right = matching["fillValues"]["lhs"], matching["fillValues"]["rhs"]
    if left is not None and left == right:
        yield f" fill ({general(left)})"
        return
    for name, value in (("left", left), ("right", right)):
        if value is not None:
            yield f" fill_{name} ({general(value)})"


def _selector(node: Tree) -> str:
    named = {"name": "__name__", "value": node["name"], "type": "="}
    rest = sorted(_matcher(m) for m in node["matchers"] if not (node["name"] and m == named))
    return f"{node['name']}{{{','.join(rest)}}}" if rest else str(node["name"])


def _matcher(matcher: Tree) -> str:
    return f"{_name(matcher['name'])}{matcher['type']}{_quoted(matcher['value'])}"


def _subquery_suffix(node: Tree) -> str:
    step = _duration(node["step"]) if node["step"] else ""
    return f"[{_duration(node['range'])}:{step}]{_shift(node)}"


def _shift(node: Tree) -> str:
    text = f" @ {node['timestamp'] / 1000:.3f}" if node["timestamp"] is not None else ""
    text += f" @ {node['startOrEnd']}()" if node["startOrEnd"] else ""
    sign = "-" if node["offset"] < 0 else ""
    return text + (f" offset {sign}{_duration(abs(node['offset']))}" if node["offset"] else "")


def _duration(ms: int) -> str:
    """Years and weeks only where nothing is left over (common/model, Duration.String)."""
    text = ""
    for unit, size in (*((u, s) for u, s in _WHOLE_ONLY if ms % s == 0), *_UNITS):
        count, ms = divmod(ms, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(_name, names))


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """As Go's strconv.Quote."""
    return '"' + "".join(_ESCAPES.get(char) or (char if char.isprintable() else _escape(char)) for char in text) + '"'


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
