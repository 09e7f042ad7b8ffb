"""Spark's analysed plan as a tree, next to Spark's own object."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from tidemill.backfill.plan_tree import Node, tree
from tidemill.engine.scala import items

# Ids, which Spark renumbers for a plan that is used twice.
_NUMBERS = re.compile(r'"(?:id|jvmId|nodeId|__dataset_id)": (?:\d+|"[^"]*")')

# Metadata of a column with a watermark, or derived from one.
_WATERMARK = "spark.watermarkDelayMs"

# Plans in JSON, by their frames.
_TEXTS: WeakKeyDictionary[DataFrame, str] = WeakKeyDictionary()


def plan_of(frame: DataFrame) -> Any:
    """Return Spark's plan object."""
    return frame._jdf.queryExecution().analyzed()


def text_of(frame: DataFrame) -> str:
    """Return the plan of a frame in JSON; cached, because Spark takes a while to create it."""
    text = _TEXTS.get(frame)
    if text is None:
        text = _TEXTS[frame] = plan_of(frame).toJSON()
    return text


def root_of(frame: DataFrame) -> Node:
    """Return the plan of a frame as a tree."""
    return tree(json.loads(text_of(frame)))


def node_of(plan: Any) -> Node:
    """Return the tree of Spark's plan object."""
    return tree(json.loads(plan.toJSON()))


def paired(node: Node, plan: Any) -> Iterator[tuple[Node, Any]]:
    """Yield each node of a tree with Spark's object, from the root."""
    yield node, plan
    for child, below in zip(node.children, items(plan.children()), strict=True):
        yield from paired(child, below)


def shapes(root: Node) -> dict[int, str]:
    """Return a digest by `id` of each node, which is equal for plans that differ only in column numbers."""
    found: dict[int, str] = {}

    def shape(node: Node) -> str:
        fields = _NUMBERS.sub("", json.dumps(node.fields, sort_keys=True))
        whole = "".join([fields, *map(shape, node.children)])
        # A digest, because a plan of many steps holds each of its columns in every step.
        found[id(node)] = hashlib.sha256(whole.encode()).hexdigest()
        return found[id(node)]

    shape(root)
    return found


def is_stream(node: Node) -> bool:
    """Return True if any of its rows come from a stream."""
    return any(below.kind.startswith("Streaming") for below in node.walk())


def has_watermark(expressions: Any) -> bool:
    """Return True if one of Spark's expressions is a column with a watermark, or a window of one."""
    # The JSON does not contain this. A function of such a column is not bounded by the watermark.
    return any(
        column.getClass().getSimpleName() == "AttributeReference" and column.metadata().contains(_WATERMARK)
        for column in items(expressions)
    )


def classes_in(fields: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each expression in the fields of a node: its class name and its own fields."""
    if isinstance(fields, list):
        for part in fields:
            yield from classes_in(part)
    elif isinstance(fields, dict):
        for part in fields.values():
            yield from classes_in(part)
        if "num-children" in fields:
            yield str(fields["class"]).rpartition(".")[2], fields
