"""DRF views and their operations in the OpenAPI schema."""

from collections.abc import Callable, Mapping, Sequence

from drf_spectacular.utils import extend_schema, extend_schema_view

from query.api.openapi import ERRORS, Schema, answered, operation, success
from query.api.rest import ApiView, FormView

Decorator = Callable[[type[ApiView]], type[ApiView]]


def in_schema(summary: str, parameters: Sequence[Schema], data: Schema) -> Decorator:
    """Of a view that answers in Prometheus' envelope, with its parameters and what `data` is."""
    return in_schema_as(summary, parameters, {"200": answered(summary, success(data)), **ERRORS})


def in_schema_as(summary: str, parameters: Sequence[Schema], responses: Mapping[str, Schema]) -> Decorator:
    """The same, with all its answers by status."""

    def decorate(view: type[ApiView]) -> type[ApiView]:
        name = view.counted
        methods = {"get": extend_schema(operation=operation(name, summary, parameters, responses))}
        if issubclass(view, FormView):
            form = operation(f"{name}_form", summary, parameters, responses, form=True)
            methods["post"] = extend_schema(operation=form)
        made: type[ApiView] = extend_schema_view(**methods)(view)
        return made

    return decorate
