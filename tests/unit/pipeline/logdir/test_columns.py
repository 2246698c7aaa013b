"""The column table agrees with itself and with the envelope of a record."""

from __future__ import annotations

import pytest

from kbroker.pipeline import envelope
from kbroker.pipeline.logdir.columns import (
    HEADER_COLUMNS,
    LOG_COLUMNS,
    arrow_schema,
    header_columns,
    record_columns,
    spark_schema,
)


def test_columns_of_a_record_are_those_of_the_envelope() -> None:
    assert spark_schema(record_columns(envelope.RECORD_COLUMNS)) == envelope.RECORD_SCHEMA
    assert spark_schema(record_columns(envelope.ARCHIVE_COLUMNS)) == envelope.ARCHIVE_SCHEMA


@pytest.mark.parametrize(
    "columns",
    [
        record_columns(envelope.ARCHIVE_COLUMNS + LOG_COLUMNS),
        header_columns(HEADER_COLUMNS),
    ],
)
def test_spark_takes_the_arrow_types_for_its_own(columns: tuple) -> None:  # type: ignore[type-arg]
    types = pytest.importorskip("pyspark.sql.pandas.types")
    spark_names = {"int": "int", "bigint": "bigint"}

    schema = types.from_arrow_schema(arrow_schema(columns))

    for column, field in zip(columns, schema.fields, strict=True):
        name = field.dataType.simpleString()
        assert spark_names.get(name, name) == column.spark_type.lower().replace(": ", ":").replace(
            ", ", ","
        )


def test_columns_come_in_the_order_of_the_question() -> None:
    assert arrow_schema(record_columns(("value", "key"))).names == ["value", "key"]


@pytest.mark.parametrize("names", [(), ("key", "nothing")])
def test_no_column_and_an_unknown_one_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="there are key, value"):
        record_columns(names)
