"""MLflow models that a transform applies, as declared and as resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tidemill.spec.strict import Strict
from tidemill.spec.text import ResultType

# A name and an alias, a version, a stage or `latest`, in MLflow's form.
MODEL_URI_PATTERN = r"^models:/[^/@:\s\x00-\x1f]{1,255}(?:@[A-Za-z0-9_.-]{1,100}|/[A-Za-z0-9_.-]{1,100})$"
# A path below the storage root, without `.`, `..` and `*`. Not a URI.
MODEL_PATH_PATTERN = r"^[A-Za-z0-9_-][A-Za-z0-9_.=-]{0,99}(?:/[A-Za-z0-9_-][A-Za-z0-9_.=-]{0,99}){0,9}$"
MODEL_DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"

Flavour = Literal["spark", "python_function"]


class DeclaredModel(Strict):
    """An MLflow model: a registered model by name, or a folder by path and digest.

    A driver resolves the model once, at its start, and records it in the ledger entry of each commit. To use
    an alias that was moved, restart the pipeline. A model's files may contain code, so the files of a folder
    are loaded only if they match `digest`.
    """

    uri: Annotated[str, Field(pattern=MODEL_URI_PATTERN)] | None = Field(
        None,
        description="Registered model by alias, version or stage: models:/fraud@champion, models:/fraud/3, "
        "models:/fraud/Production. The environment names the registry.",
    )
    path: Annotated[str, Field(pattern=MODEL_PATH_PATTERN)] | None = Field(
        None, description="Folder with an MLmodel file, relative to the storage root. Needs `digest`."
    )
    digest: Annotated[str, Field(pattern=MODEL_DIGEST_PATTERN)] | None = Field(
        None,
        description="`sha256:` and the output of `find . -type f -printf '%P\\0' | LC_ALL=C sort -z | "
        "xargs -0 sha256sum | sha256sum` in the folder. With `uri`, the resolved version must have this "
        "digest.",
    )
    result_type: ResultType | None = Field(
        None,
        description="Type of the column `prediction` as Spark DDL, e.g. double. Default: the type in the "
        "model's signature. Not for Spark models, which name their columns themselves.",
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
    """A model as a driver resolved it at its start.

    Args:
        uri: The declared URI, or `path:` and the folder.
        digest: Digest of its files.
        flavour: MLflow flavour that applies it.
        folder: Copy of its files on this machine, with that digest.
        version: Version in the registry; None for a folder.
        result_type: The declared type.
    """

    uri: str
    digest: str
    flavour: Flavour
    folder: str
    version: str | None = None
    result_type: str | None = None
