"""Files that arrive in a folder: `source: {files: {...}}`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tidemill.spec.location import Folder
from tidemill.spec.options import FilesOptions
from tidemill.spec.strict import Strict
from tidemill.spec.text import ColumnList, Expression
from tidemill.spec.units import Count, Duration, DurationOrOff, Size

# What becomes of a file that was read.
After = Literal["keep", "archive", "delete"]

# Auto Loader's modes, under the names that a Delta sink has for the same.
Evolution = Literal["add_columns", "rescue", "fail", "none"]

# Spark's own options of where files are and how they are cut, of each format whose columns can be discovered.
_PLACE = ("pathGlobFilter", "recursiveFileLookup")
_OPTIONS_OF_DISCOVERY = {"json": (*_PLACE, "lineSep"), "csv": (*_PLACE, "header", "sep")}


class FilesSource(Strict):
    """Files that arrive in a folder whole, and are never changed afterwards, nor removed by anybody else.

    To put a file there whole, write it elsewhere on the same storage, or under a name that begins with `.` or
    `_`, and rename it; object stores show a file only when its upload has ended.
    """

    path: Folder = Field(
        description="Folder, relative to the storage root, or a URI; it may hold `*`. Folders such as "
        "`day=2026-01-01` below it are columns, if the schema names them."
    )
    format: Literal["json", "csv", "parquet", "orc", "text", "avro"] = Field(
        description="Format of every file."
    )
    schema_: ColumnList | None = Field(
        None,
        alias="schema",
        description="Columns as Spark DDL, e.g. `device string, signal double`, in at most 200,000 "
        "characters. They stay as they are; "
        "`schema_evolution` discovers them instead.",
    )
    schema_evolution: Evolution | None = Field(
        None,
        description="In the place of `schema`, of JSON and CSV files: columns are inferred from the first "
        "files, and kept in numbered versions. A CSV file begins with a header: its names count, not their "
        "order; one without goes to the quarantine, line by line. What becomes of a property that no column "
        "holds: add_columns makes it a column, before the first row with it is written; rescue keeps it in "
        "the column _rescued_data; fail stops; none leaves it out. A value of another type than its column "
        "goes to _rescued_data, with none to the quarantine. Folders such as `day=2026-01-01` are no columns "
        "then.",
    )
    schema_hints: Expression | None = Field(
        None,
        description="Columns that are not inferred, as Spark DDL: string, long, double, decimal, boolean, "
        "timestamp, date, array, struct, map; of CSV files plain ones. A timestamp is always one of these.",
    )
    max_files_per_batch: Count | None = Field(None, description="Most files in one batch.")
    max_bytes_per_batch: Annotated[Size, Field(gt=0)] | None = Field(
        None,
        description="Most bytes of files in one batch, which has one file at least; instead of "
        "max_files_per_batch.",
    )
    order: Literal["oldest", "newest"] = Field("oldest", description="Which new files come first.")
    max_file_age: DurationOrOff = Field(
        "off",
        description="Files that are older than this, against the newest one that was read, are skipped and "
        "forgotten. By default none is skipped, and the driver remembers all of them.",
    )
    on_invalid: Literal["quarantine", "fail"] = Field(
        "quarantine",
        description="Lines of JSON and CSV files that do not fit the schema: put them into the quarantine "
        "table and go on, or stop.",
    )
    after: After = Field(
        "keep",
        description="What becomes of files that were read, once nothing needs them there: no stream, rewind, "
        "older generation or backup. `archive` moves them into the folder `archived`, below the storage root "
        "or, elsewhere on this machine, beside the source's; backfills read them there, and a reset brings "
        "them back. `delete` deletes them for good: from then on backfills are refused, which would replace "
        "rows by fewer. Nobody else may read the folder. Done every day by checkpoint_hygiene, or by "
        "`tidemill source clean`.",
    )
    keep_for: Duration | None = Field(
        None,
        description="Least age of a file, by its own time, at which `after` takes it away. Never less than "
        "how far the pipeline can be rewound, which is the default.",
    )
    options: FilesOptions = Field({}, description="Spark's own options of the format.")

    @model_validator(mode="after")
    def _schema_is_given(self) -> Self:
        if self.schema_ is None and self.format != "text" and not self.discovers:
            can = self.format in _OPTIONS_OF_DISCOVERY
            way_out = "; or set `schema_evolution`, which discovers them" if can else ""
            raise ValueError(
                f"`schema` is missing: a stream cannot infer the columns of {self.format} files, because "
                f"files that arrive later could change them; write it as Spark DDL{way_out}"
            )
        return self

    @model_validator(mode="after")
    def _discovery_fits(self) -> Self:
        if self.schema_hints is not None and not self.discovers:
            raise ValueError("`schema_hints` needs `schema_evolution`; without it, write `schema`")
        if not self.discovers:
            return self
        if self.schema_ is not None:
            raise ValueError(
                "`schema` fixes the columns and `schema_evolution` discovers them: remove one, or write the "
                "columns that are known as `schema_hints`"
            )
        allowed = _OPTIONS_OF_DISCOVERY.get(self.format)
        if allowed is None:
            raise ValueError(
                "`schema_evolution` is for json and csv files: write the columns of "
                f"{self.format} files as `schema`"
            )
        unknown = [name for name in self.options if name.lower() not in map(str.lower, allowed)]
        if unknown:
            raise ValueError(
                f"`options.{unknown[0]}` is one of Spark's {self.format.upper()} reader, and with "
                f"`schema_evolution` Tidemill decodes the lines itself; allowed are {', '.join(allowed)}"
            )
        if self._option("header", "true").lower() != "true":
            raise ValueError(
                "the columns of CSV files are discovered by the names in their headers: remove "
                "`options.header`, or write the columns as `schema`"
            )
        if len(self.separator) != 1 or self.separator in '"\r\n\x00':
            raise ValueError(
                "`options.sep` is one character that separates fields; no quote, line break or NUL"
            )
        return self

    @model_validator(mode="after")
    def _age_limit_counts(self) -> Self:
        limits = [n for n in ("max_files_per_batch", "max_bytes_per_batch") if getattr(self, n) is not None]
        if len(limits) == 2:
            raise ValueError("a batch is limited by files or by bytes: remove one of " + " and ".join(limits))
        if self.order == "newest" and limits and self.max_file_age != "off":
            raise ValueError(
                f"Spark ignores `max_file_age` where `order: newest` and `{limits[0]}` are set, "
                "because the older files come last: remove one of the three"
            )
        return self

    @model_validator(mode="after")
    def _what_comes_after_fits(self) -> Self:
        if self.after == "keep":
            if self.keep_for is not None:
                raise ValueError("`keep_for` needs `after: archive` or `after: delete`")
            return self
        if self.after == "archive" and self.max_file_age != "off":
            raise ValueError(
                "`max_file_age` lets Spark forget files, so one that comes back from the archive would be "
                "left out, or read twice: remove it, or set `after: delete`"
            )
        other = sorted(set("?[]{}") & set(self.path))
        if other:
            raise ValueError(
                f"`{other[0]}` in `path` does not go with `after: {self.after}`: the only wildcard is `*`"
            )
        return self

    @property
    def discovers(self) -> bool:
        """Whether the columns are inferred from the files."""
        return self.schema_evolution is not None

    @property
    def rescues(self) -> bool:
        """Whether rows have the column of rescued data."""
        return self.schema_evolution not in (None, "none")

    @property
    def separator(self) -> str:
        """What stands between two fields of CSV files whose columns are discovered."""
        return self._option("sep", ",").replace("\\t", "\t")

    def _option(self, name: str, default: str) -> str:
        """An option of Spark's, which reads their names without regard to case."""
        return next((value for key, value in self.options.items() if key.lower() == name), default)

    @property
    def has_lines(self) -> bool:
        """Whether each line is a record that can be broken."""
        return self.format in ("json", "csv")
