"""A query as the tree that Prometheus' /parse_query answers with (web/api/v1/translate_ast.go)."""

from typing import Any

import promql_parser as parser

from precompute.evaluate.expr import SET_OPERATORS
from precompute.labels import METRIC_NAME
from query.numbers import plain
from query.promql.parse import Parsed, at_of, offset_ms, parsed, range_ms
from query.promql.prepare import Prepared

Tree = dict[str, Any]
"""A node: `type` says of which kind it is, the rest is as in Prometheus."""

_CARDS = {
    "OneToOne": "one-to-one", "ManyToOne": "many-to-one", "OneToMany": "one-to-many", "ManyToMany": "many-to-many",
}  # fmt: skip


def tree_of(text: str) -> Tree:
    """The tree of a query; raises as `parse` does."""
    made: Parsed = parsed(text)
    return _Translator(made.prepared).translate(made.tree)


class _Translator:
    """Walks one parsed tree, which `parse` has found right and not too deep."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    def translate(self, node: parser.Expr) -> Tree:
        match node:
            case parser.NumberLiteral():
                return {"type": "numberLiteral", "val": plain(node.val)}
            case parser.StringLiteral():
                return {"type": "stringLiteral", "val": self._text(node.val)}
            case parser.ParenExpr():
                return {"type": "parenExpr", "expr": self.translate(node.expr)}
            case parser.UnaryExpr():
                return {"type": "unaryExpr", "op": "-", "expr": self.translate(node.expr)}
            case parser.VectorSelector():
                return {"type": "vectorSelector", **self._selector(node)}
            case parser.MatrixSelector():
                length = {"range": range_ms(node.range), "rangeExpr": None}
                return {"type": "matrixSelector", **self._selector(node.vector_selector), **length}
            case parser.SubqueryExpr():
                return self._subquery(node)
            case parser.Call():
                return self._call(node)
            case parser.AggregateExpr():
                return self._aggregation(node)
        return self._binary(node)

    def _text(self, reference: str) -> str:
        return self._prepared.string(reference)[1]

    def _texts(self, references: list[str] | None) -> list[str]:
        return [self._text(one) for one in references or ()]

    def _selector(self, node: parser.VectorSelector) -> Tree:
        matchers = [self._matcher(m) for m in node.matchers.matchers]
        if node.name:
            matchers.append({"name": METRIC_NAME, "value": node.name, "type": "="})
        kind = {"anchored": False, "smoothed": False}
        return {"name": node.name or "", "matchers": matchers, **self._shift(node), **kind}

    def _matcher(self, node: parser.Matcher) -> Tree:
        op, value = self._prepared.string(node.value)
        return {"name": self._text(node.name), "value": value, "type": op or "="}

    def _shift(self, node: parser.VectorSelector | parser.SubqueryExpr) -> Tree:
        at = at_of(node.at, self._prepared)
        fixed = {"timestamp": at if isinstance(at, int) else None, "startOrEnd": at if isinstance(at, str) else None}
        return {"offset": offset_ms(node.offset), "offsetExpr": None, **fixed}

    def _subquery(self, node: parser.SubqueryExpr) -> Tree:
        assert node.range is not None, "the grammar asks for it"
        step_ms = 0 if node.step is None else range_ms(node.step)
        lengths = {"range": range_ms(node.range), "rangeExpr": None, "step": step_ms, "stepExpr": None}
        return {"type": "subquery", "expr": self.translate(node.expr), **lengths, **self._shift(node)}

    def _call(self, node: parser.Call) -> Tree:
        function = {
            "name": node.func.name,
            "argTypes": [_word(kind) for kind in node.func.arg_types],
            "variadic": node.func.variadic,
            "returnType": _word(node.func.return_type),
        }
        return {"type": "call", "func": function, "args": [self.translate(arg) for arg in node.args]}

    def _aggregation(self, node: parser.AggregateExpr) -> Tree:
        labels = self._texts(node.modifier.labels) if node.modifier is not None else []
        return {
            "type": "aggregation",
            "op": str(node.op),
            "expr": self.translate(node.expr),
            "param": None if node.param is None else self.translate(node.param),
            "grouping": labels,
            "without": node.modifier is not None and str(node.modifier.type).endswith("Without"),
        }

    def _binary(self, node: parser.Expr) -> Tree:
        assert isinstance(node, parser.BinaryExpr), "there is no other kind"
        left, right = self.translate(node.lhs), self.translate(node.rhs)
        between_vectors = _is_vector(left) and _is_vector(right)
        return {
            "type": "binaryExpr",
            "op": str(node.op),
            "lhs": left,
            "rhs": right,
            "matching": self._matching(str(node.op), node.modifier) if between_vectors else None,
            "bool": node.modifier is not None and node.modifier.return_bool,
        }

    def _matching(self, op: str, modifier: parser.BinModifier | None) -> Tree:
        if modifier is None:
            card = "many-to-many" if op in SET_OPERATORS else "one-to-one"
            empty = {"labels": [], "on": False, "include": []}
            return {"card": card, **empty, "fillValues": {"lhs": None, "rhs": None}}
        pairs = modifier.matching
        return {
            "card": _CARDS[str(modifier.card).rpartition(".")[2]],
            "labels": self._texts(pairs.labels) if pairs is not None else [],
            "on": pairs is not None and str(pairs.type).endswith("Include"),
            "include": self._texts(modifier.group_labels),
            "fillValues": {"lhs": modifier.fill_values.lhs, "rhs": modifier.fill_values.rhs},
        }


def _word(kind: object) -> str:
    return str(kind).rpartition(".")[2].lower()


def _is_vector(node: Tree) -> bool:
    match node["type"]:
        case "numberLiteral" | "stringLiteral":
            return False
        case "parenExpr" | "unaryExpr":
            return _is_vector(node["expr"])
        case "binaryExpr":
            return _is_vector(node["lhs"]) or _is_vector(node["rhs"])
        case "call":
            return bool(node["func"]["returnType"] == "vector")
    return True
