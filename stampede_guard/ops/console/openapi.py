"""A description of the JSON twins (OpenAPI 3.1), made from the screens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stampede_guard.ops.console.screen import ConsoleScreen, Parameter

__all__ = ["document"]


def document(screens: Sequence[ConsoleScreen], base: str, version: str) -> dict[str, Any]:
    """`base`: the mount path. `version`: of the library."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "stampede_guard console", "version": version},
        "servers": [{"url": base or "/"}],
        "paths": {f"/api/{screen.name}": {"get": _operation(screen)} for screen in screens},
    }


def _operation(screen: ConsoleScreen) -> dict[str, Any]:
    return {
        "operationId": screen.name.replace("-", "_"),
        "summary": screen.about,
        "parameters": [_parameter(one) for one in screen.parameters],
        "responses": {
            "200": _answer("What the page shows."),
            "400": _answer("A parameter is wrong."),
            "403": {"description": "`allow` refused the request."},
            "404": _answer("What a parameter names, or what the page is about, is not there."),
            "414": {"description": "The query is too long."},
            "503": _answer("The store is away, or refuses."),
        },
    }


def _answer(about: str) -> dict[str, Any]:
    return {"description": about, "content": {"application/json": {"schema": {"type": "object"}}}}


def _parameter(one: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": one.longest}
    if one.number is not None:
        schema = {"type": "integer", "minimum": one.number[0], "maximum": one.number[1]}
    elif one.choices:
        schema = {"type": "string", "enum": list(one.choices)}
    # Forms also send empty fields. Empty means not given.
    if one.required:
        schema["minLength"] = 1
    elif one.number is not None:
        schema = {"anyOf": [schema, {"type": "string", "maxLength": 0}]}
    elif one.choices:
        schema["enum"].append("")
    return {
        "name": one.name,
        "in": "query",
        "required": one.required,
        "description": one.about,
        "schema": schema,
    }
