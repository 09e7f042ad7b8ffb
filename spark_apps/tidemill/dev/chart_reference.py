"""Generated files of the chart: the table of its values, and their JSON Schema.

helm/tidemill/README.md            from values.yaml: a comment that begins with `# --` above a key describes
                                   the key, and the keys below it are not listed
helm/tidemill/values.schema.json   from values.template.schema.json: `environment` is replaced by the model of
                                   environment files, and `environmentName` by the pattern of their names, so
                                   that the chart rejects values that drivers would reject
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tidemill.errors import UsageError
from tidemill.names import ENVIRONMENT_PATTERN
from tidemill.spec.environment import EnvironmentSpec
from tidemill.spec.reference import GENERATE_COMMAND, json_schema

CHART = Path("helm/tidemill")
VALUES_FILE = "values.yaml"
TEMPLATE_FILE = "values.template.schema.json"

# Required by the models, and set by the chart if a values file omits them.
FILLED_BY_THE_CHART = {"KubernetesSettings": ("namespace", "image")}

_MARK = "# -- "

_HEAD = f"""# The values of the chart

Made by `{GENERATE_COMMAND}` from `values.yaml`; do not edit. What the objects are for, sizing, upgrade and
uninstall: [Kubernetes for operators](../README.md).

| key | default | |
|---|---|---|
"""


@dataclass(frozen=True)
class Value:
    """One documented key of values.yaml."""

    path: str
    default: str
    about: str


def chart_files(folder: Path) -> dict[Path, str]:
    """Return the content of the chart's generated files, by path; empty in a project without the chart."""
    chart = folder / CHART
    if not (chart / VALUES_FILE).is_file():
        return {}
    template = json.loads((chart / TEMPLATE_FILE).read_text(encoding="utf-8"))
    return {
        chart / "README.md": values_table((chart / VALUES_FILE).read_text(encoding="utf-8")),
        chart / "values.schema.json": json.dumps(with_environment(template), indent=2) + "\n",
    }


def write_chart_files(folder: Path) -> list[Path]:
    """Write the generated files and return their paths."""
    files = chart_files(folder)
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    return list(files)


def differing_chart_files(folder: Path) -> list[Path]:
    """Return the generated files that are missing or outdated."""
    files = chart_files(folder)
    return [file for file, text in files.items() if not file.is_file() or file.read_text("utf-8") != text]


def values_table(text: str) -> str:
    """Return the README of the values in `text`."""
    rows = (f"| `{value.path}` | `{value.default}` | {value.about} |" for value in documented_values(text))
    return _HEAD + "\n".join(rows) + "\n"


def documented_values(text: str) -> Iterator[Value]:
    """Yield every documented key, in the order of the file.

    Raises:
        UsageError: TIDE-DEV-040, if a key without further keys has no comment.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if isinstance(root, yaml.MappingNode):
        yield from _below(root, text.splitlines(), "")


def _below(node: yaml.MappingNode, lines: list[str], path: str) -> Iterator[Value]:
    for key, value in node.value:
        name = f"{path}{key.value}"
        about = _comment_above(lines, key.start_mark.line)
        if about is not None:
            yield Value(name, _as_json(value), about)
        elif isinstance(value, yaml.MappingNode) and value.value:
            yield from _below(value, lines, f"{name}.")
        else:
            raise UsageError(
                "TIDE-DEV-040",
                "A value of the chart is not documented.",
                facts={"key": name, "file": str(CHART / VALUES_FILE)},
                fix="put a comment that begins with `# --` above it",
            )


def _comment_above(lines: list[str], line: int) -> str | None:
    """Return the comment directly above a line, if it begins with the mark."""
    start = line
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    comment = [text.strip() for text in lines[start:line]]
    if not comment or not comment[0].startswith(_MARK):
        return None
    words = [comment[0].removeprefix(_MARK), *(text.removeprefix("#").strip() for text in comment[1:])]
    return " ".join(words).replace("|", "\\|")


def _as_json(node: yaml.Node) -> str:
    document = yaml.safe_load(yaml.serialize(node))
    return json.dumps(document, ensure_ascii=False).replace("|", "\\|")


def with_environment(template: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the values, with the model and name pattern of environment files in `$defs`."""
    schema = json_schema(EnvironmentSpec)
    definitions: dict[str, Any] = schema.pop("$defs")
    schema.pop("$schema")
    for model, filled in FILLED_BY_THE_CHART.items():
        required = [key for key in definitions[model]["required"] if key not in filled]
        definitions[model] = {**definitions[model], "required": required}
    # The chart always runs drivers as pods.
    schema["properties"]["runtime"] |= {"enum": ["kubernetes"], "default": "kubernetes"}
    name = {"type": "string", "pattern": f"^{ENVIRONMENT_PATTERN}$"}
    return {
        "$comment": f"Made by `{GENERATE_COMMAND}` from {TEMPLATE_FILE}; do not edit.",
        **template,
        "$defs": {**template.get("$defs", {}), **definitions, "environment": schema, "environmentName": name},
    }
