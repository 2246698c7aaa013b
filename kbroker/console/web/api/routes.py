"""The routes of the API and its OpenAPI document, made from the declared operations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from kbroker.console.web.api.answers import api_answer
from kbroker.console.web.api.bodies import body_of
from kbroker.console.web.api.operation import Given, Operation, Parameter
from kbroker.console.web.api.operations import OPERATIONS
from kbroker.console.web.api.schemas import Schemas
from kbroker.console.web.console import Console
from kbroker.console.web.routes import API_PATH, Respond, WebRoute
from kbroker.console.web.web_request import RefusedError, WebRequest
from kbroker.http.answers import JSON, Answer

_ERRORS: Final = {
    "400": "An argument is missing or wrong.",
    "403": "It comes from a page elsewhere, or this console does not do that.",
    "404": "There is no such topic, group, broker or message.",
    "409": "The cluster refuses it.",
    "503": "The cluster does not answer.",
}


def _routes() -> tuple[WebRoute, ...]:
    """Return a route for each operation, and that of the document."""
    routes = [
        WebRoute(
            method=each.method,
            pattern=f"{API_PATH}{each.path}",
            respond=_respond(each),
            shows_messages=each.shows_messages,
        )
        for each in OPERATIONS
    ]
    return (*routes, WebRoute(pattern=f"{API_PATH}/openapi.json", respond=_document))


def _respond(operation: Operation) -> Respond:
    names = {each.name for each in operation.parameters}

    async def respond(console: Console, request: WebRequest) -> Answer:
        for name in request.query.values:
            if name not in names:
                listed = f"there are {', '.join(sorted(names))}" if names else "there are none"
                raise RefusedError(400, f"no such parameter: {name[:100]!a}; {listed}")
        try:
            body = None if operation.body is None else body_of(operation.body, request.body)
            given = Given(places=request.places, query=request.query, body=body)
            return api_answer(await operation.function(console, given))
        except ValueError as error:
            raise RefusedError(400, str(error)) from error

    return respond


_LOGIN = {
    "type": "http",
    "scheme": "basic",
    "description": "A user of the listener that takes names and passwords.",
}


async def _document(console: Console, _request: WebRequest) -> Answer:
    return api_answer(openapi(OPERATIONS, has_users=console.user is not None))


def openapi(operations: Iterable[Operation], *, has_users: bool = False) -> dict[str, Any]:
    """Return the OpenAPI document of operations; with users, who log in by HTTP Basic."""
    from importlib.metadata import version  # which takes as long as all of this

    schemas = Schemas()
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(
            operation, schemas
        )
    error = {
        "type": "object",
        "description": "A sentence that says what is wrong.",
        "properties": {"error": {"type": "string"}},
        "required": ["error"],
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kbroker console",
            "version": version("kbroker"),
            "description": "What the console of a Kafka cluster shows and does, as JSON.",
        },
        "servers": [{"url": API_PATH}],
        "paths": paths,
        "components": {
            "schemas": {"Error": error, **schemas.components},
            **({"securitySchemes": {"login": _LOGIN}} if has_users else {}),
        },
        **({"security": [{"login": []}]} if has_users else {}),
    }


def _described(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    sent = Schemas(schemas.components, of_bodies=True)
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in re.findall(r"{(\w+)}", operation.path)
            ),
            *(_parameter(each, schemas) for each in operation.parameters),
        ],
        "responses": {
            "200": {
                "description": "The answer.",
                "content": {JSON: {"schema": schemas.of(operation.answer)}},
            },
            **{
                status: {
                    "description": text,
                    "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
                for status, text in _ERRORS.items()
            },
        },
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": sent.of(operation.body)}},
        }
    return described


def _parameter(parameter: Parameter, schemas: Schemas) -> dict[str, Any]:
    schema = schemas.of(parameter.type)
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.summary,
        "schema": schema,
    }


ROUTES: Final = _routes()
