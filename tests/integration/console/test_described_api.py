"""The OpenAPI document of the console, and whether answers are as it says."""

from __future__ import annotations

import re

from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.integration.console.consoled_clusters import fill, hostile_things, kbroker


def test_the_description_of_the_api_is_valid_and_its_answers_are_as_it_says() -> None:
    with kbroker() as cluster:
        fill(cluster)
        document = cluster.call("openapi.json")
        OpenAPIV31SpecValidator(document).validate()
        assert document["openapi"].startswith("3.1")

        places = cluster.places()
        with hostile_things(cluster):
            for pattern, operations in document["paths"].items():
                if "get" not in operations:
                    continue
                path = re.sub(r"{(\w+)}", lambda found: places[found[1]], pattern)
                answers = operations["get"]["responses"]["200"]["content"]
                schema = answers["application/json"]["schema"] | {
                    "components": document["components"]
                }
                answer = cluster.call(path.removeprefix("/"))
                problems = [each.message for each in OAS31Validator(schema).iter_errors(answer)]
                assert (path, problems) == (path, [])
