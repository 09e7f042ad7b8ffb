"""Models of MLflow that a transform applies: which ones, and what was found of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tidemill.spec.strict import Strict
from tidemill.spec.text import ResultType

# A name, and an alias, a version, a stage or `latest`, as MLflow writes it.
MODEL_URI_PATTERN = r"^models:/[^/@:\s\x00-\x1f]{1,255}(?:@[A-Za-z0-9_.-]{1,100}|/[A-Za-z0-9_.-]{1,100})$"
# Below the storage root: no `.`, `..` or `*`, and no URI.
MODEL_PATH_PATTERN = r"^[A-Za-z0-9_-][A-Za-z0-9_.=-]{0,99}(?:/[A-Za-z0-9_-][A-Za-z0-9_.=-]{0,99}){0,9}$"
MODEL_DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"

Flavour = Literal["spark", "python_function"]


class DeclaredModel(Strict):
    """A model of MLflow: a registered one by name, or a folder by path and digest.

    Looked up once, at a driver's start, and put into the ledger of each commit. To follow an alias that was
    moved, restart the pipeline. A model's files may hold code: those of a folder are not loaded unless they
    are what `digest` says.
    """

    uri: Annotated[str, Field(pattern=MODEL_URI_PATTERN)] | None = Field(
        None,
        description="Registered model, by alias, version or stage: models:/fraud@champion, models:/fraud/3, "
        "models:/fraud/Production. The environment names the registry.",
    )
    path: Annotated[str, Field(pattern=MODEL_PATH_PATTERN)] | None = Field(
        None, description="Folder with an MLmodel file, relative to the storage root; needs `digest`."
    )
    digest: Annotated[str, Field(pattern=MODEL_DIGEST_PATTERN)] | None = Field(
        None,
        description="`sha256:` and what `find . -type f -printf '%P\\0' | LC_ALL=C sort -z | "
        "xargs -0 sha256sum | sha256sum` prints in the folder. With `uri`, the version that is found must "
        "have it.",
    )
    result_type: ResultType | None = Field(
        None,
        description="Type of the column `prediction` as Spark DDL, e.g. double. Default: as the model's "
        "signature says. Not of Spark's own models, which name their columns themselves.",
    )

    @model_validator(mode="after")
    def _is_found_in_one_place(self) -> Self:
        if (self.uri is None) == (self.path is None):
            raise ValueError(f"expected exactly one of uri, path; found {'both' if self.uri else 'none'}")
        if self.path is not None and self.digest is None:
            raise ValueError(
                "`path` needs `digest`: a model's files may hold code, so they are not loaded unless they "
                "are the ones that were meant"
            )
        return self


@dataclass(frozen=True)
class ResolvedModel:
    """What a driver found at its start.

    Args:
        uri: As declared, or `path:` and the folder.
        digest: Of its files.
        flavour: By which it is applied.
        folder: Copy of its files on this machine, which has that digest.
        version: Version in the registry; None of a folder.
        result_type: As declared.
    """

    uri: str
    digest: str
    flavour: Flavour
    folder: str
    version: str | None = None
    result_type: str | None = None
