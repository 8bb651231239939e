"""The document that describes the API: stable names, and every failure as the problem document that it is."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field

from gradassay.api.problem import MEDIA_TYPE

_REFERENCE = "#/components/schemas/{model}"
_FAILURES = {"4XX": "The request cannot be answered as it is.", "5XX": "The service failed."}
_OF_THE_FRAMEWORK = ("HTTPValidationError", "ValidationError")


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str = Field(description="urn:gradassay:problem: and the code")
    title: str = Field(description="what the code means")
    status: int
    detail: str = Field(description="what happened, with which values")
    instance: str = Field(description="path of the request")
    code: str = Field(description="stable; docs/service.md lists all of them")
    hint: str = Field(description="what to do next")
    facts: dict[str, str | int | bool] = Field(description="the values again, for machines")
    request_id: str = Field(description="names the request in the service's log")


def operation_id(route: APIRoute) -> str:
    """The name of the function behind the route; clients are generated with it."""
    return route.name


def describe(app: FastAPI) -> None:
    """Makes the app's document say that every operation may fail with a problem document, and with nothing else."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = made()
            _describe_failures(document)
        return made()

    app.openapi = openapi  # type: ignore[method-assign]


def _describe_failures(document: dict[str, Any]) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in _OF_THE_FRAMEWORK:
        schemas.pop(name, None)
    schemas["Problem"] = Problem.model_json_schema()
    content = {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}}
    for methods in document["paths"].values():
        for operation in methods.values():
            responses = operation["responses"]
            if "HTTPValidationError" in str(responses.get("422")):
                del responses["422"]
            known = {status: answer["description"] for status, answer in responses.items() if status[0] in "45"}
            for status, description in (_FAILURES | known).items():
                responses[status] = {"description": description, "content": content}
