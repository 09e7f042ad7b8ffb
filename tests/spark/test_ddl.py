"""Our parser of DDL against Spark's: both read the same columns, or refuse them."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tests.support.ddl_corpus import REFUSED_HERE, SAME, WRONG
from tidemill.spec.ddl import DdlType, parse_columns


def type_text(kind: DdlType) -> str:
    """Return a type as `DataType.simpleString` writes it."""
    if kind.name == "struct":
        fields = ",".join(f"{field.name}:{type_text(field.type)}" for field in kind.fields)
        return f"struct<{fields}>"
    if kind.parts:
        return f"{kind.name}<{','.join(map(type_text, kind.parts))}>"
    numbers = ",".join(map(str, kind.numbers))
    return f"{kind.name}({numbers})" if numbers else kind.name


def spark_columns(ddl: str) -> StructType:
    """Parse DDL with the parser of Spark's own readers and PySpark."""
    return StructType.fromDDL(ddl)


@pytest.mark.parametrize("ddl", SAME)
def test_spark_reads_the_same_columns(spark: SparkSession, ddl: str) -> None:
    read = [(c.name, c.dataType.simpleString(), not c.nullable) for c in spark_columns(ddl).fields]
    assert [(c.name, type_text(c.type), c.required) for c in parse_columns(ddl)] == read


@pytest.mark.parametrize("ddl", WRONG)
def test_spark_refuses_what_we_refuse(spark: SparkSession, ddl: str) -> None:
    with pytest.raises(PySparkException):
        spark_columns(ddl)


@pytest.mark.parametrize("ddl", REFUSED_HERE)
def test_spark_reads_what_only_we_refuse(spark: SparkSession, ddl: str) -> None:
    assert isinstance(spark_columns(ddl), StructType)
