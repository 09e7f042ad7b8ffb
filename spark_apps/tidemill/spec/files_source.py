"""Files that arrive in a folder: `source: {files: {...}}`."""

from __future__ import annotations

import codecs
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tidemill.spec.location import Folder
from tidemill.spec.options import FilesOptions
from tidemill.spec.strict import Strict
from tidemill.spec.text import ColumnList
from tidemill.spec.units import Count, Duration, DurationOrOff, Size

# What becomes of a file that was read.
After = Literal["keep", "archive", "delete"]

# Auto Loader's modes, under the names that a Delta sink has for the same.
Evolution = Literal["add_columns", "rescue", "fail", "none"]

FileFormat = Literal["json", "csv", "parquet", "orc", "text", "avro"]

# Options of Spark's readers that ours know, by format. Their names have no case.
_ANY_FORMAT = ("pathGlobFilter",)
OPTIONS_BY_FORMAT: dict[str, tuple[str, ...]] = {
    "json": ("lineSep", "multiLine", "encoding", "charset", "primitivesAsString"),
    "csv": (
        "header",
        "sep",
        "delimiter",
        "quote",
        "escape",
        "comment",
        "nullValue",
        "multiLine",
        "encoding",
        "charset",
    ),
    "text": ("lineSep", "wholetext", "encoding", "charset"),
    "parquet": (),
    "orc": (),
    "avro": (),
    "protobuf": (),
}
_FORMATS_OF_DISCOVERY = ("json", "csv")
_OPTIONS_OF_DISCOVERY = {"json": ("lineSep",), "csv": ("header", "sep", "delimiter")}

# Keys about the order in which a stream takes files, and about files that it has read.
FOR_STREAMS = frozenset(
    {"max_files_per_batch", "max_bytes_per_batch", "order", "max_file_age", "after", "keep_for"}
)

# Formats that are decoded here, one record at a time.
_FORMATS_OF_RECORDS = ("json", "csv", "text", "protobuf")


class FilesSource(Strict):
    """Files that arrive in a folder whole, and are never changed afterwards, nor removed by anybody else.

    To put a file there whole, write it elsewhere on the same storage, or under a name that begins with `.` or
    `_`, and rename it; object stores show a file only when its upload has ended.
    """

    path: Folder = Field(
        description="Folder, relative to the storage root, or a URI. It may hold `*`. Folders such as "
        "`day=2026-01-01` below it are columns, if the schema names them."
    )
    recursive: bool = Field(
        True,
        description="Read the files of all folders below `path`. If false, only files in `path` and in "
        "folders such as `day=2026-01-01` are read.",
    )
    format: FileFormat | None = Field(
        None,
        description="Format of every file. With a `payload`, its format is the files' format. A file whose "
        "name ends with .gz, .bz2, .xz, .zst, .deflate or .zlib is decompressed.",
    )
    schema_: ColumnList | None = Field(
        None,
        alias="schema",
        description="Columns as Spark DDL, e.g. `device string, signal double`, in at most 200,000 "
        "characters. They stay as they are. `schema_evolution` discovers them instead, and `payload` takes "
        "them from a file in conf/schemas.",
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
    schema_hints: ColumnList | None = Field(
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
    order: Literal["oldest", "newest"] = Field(
        "oldest",
        description="Which new files come first, by modification time. Files with the same time are taken in "
        "the order of their names.",
    )
    max_file_age: DurationOrOff = Field(
        "off",
        description="Files that are older than this, against the newest one that was read, are skipped and "
        "forgotten. By default none is skipped, and the driver remembers all of them.",
    )
    on_invalid: Literal["quarantine", "fail"] = Field(
        "quarantine",
        description="Records that do not fit the schema, and files that cannot be read: put them into the "
        "quarantine table and continue, or stop. With a `payload`, write it there.",
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
    options: FilesOptions = Field(
        {},
        description="Options of the format, by Spark's names: `pathGlobFilter` for every format; `header`, "
        "`sep`, `quote`, `escape`, `comment`, `nullValue` and `encoding` for CSV; `lineSep`, `multiLine`, "
        "`encoding` and `primitivesAsString` for JSON; `lineSep`, `wholetext` and `encoding` for text.",
    )

    @model_validator(mode="after")
    def _schema_is_given(self) -> Self:
        if self.format in (None, "text") or self.schema_ is not None or self.discovers:
            return self
        can = self.format in _FORMATS_OF_DISCOVERY
        way_out = "; or set `schema_evolution`, which discovers them" if can else ""
        raise ValueError(
            f"`schema` is missing: a stream cannot infer the columns of {self.format} files, because "
            f"files that arrive later could change them; write it as Spark DDL{way_out}"
        )

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
        if self.format not in _FORMATS_OF_DISCOVERY:
            raise ValueError(
                "`schema_evolution` is for json and csv files: write the columns of "
                f"{self.format} files as `schema`"
            )
        self._check_options(_OPTIONS_OF_DISCOVERY[self.format], " with `schema_evolution`")
        if not self.option("header", "true") == "true":
            raise ValueError(
                "the columns of CSV files are discovered by the names in their headers: remove "
                "`options.header`, or write the columns as `schema`"
            )
        return self

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.format is not None:
            self.check_options_of(self.format)
        return self

    def check_options_of(self, file_format: str) -> None:
        """Refuse options that the reader of a format does not know.

        Raises:
            ValueError: Names the option, and those that there are.
        """
        self._check_options(OPTIONS_BY_FORMAT[file_format], "")
        for name, default in (("sep", ","), ("quote", '"'), ("escape", ""), ("comment", "")):
            value = self.separator if name == "sep" else self.option(name, default)
            if len(value) > 1 or (name == "sep" and not value) or value in ("\r", "\n", "\x00"):
                raise ValueError(f"`options.{name}` is one character, not a line break or NUL")
        if self.separator == self.option("quote", '"'):
            raise ValueError("`options.sep` and `options.quote` are the same character")
        self._check_encoding()

    def _check_options(self, allowed: tuple[str, ...], where: str) -> None:
        known = {name.lower() for name in (*_ANY_FORMAT, *allowed)}
        unknown = [name for name in self.options if name.lower() not in known]
        if unknown:
            names = ", ".join((*_ANY_FORMAT, *allowed))
            raise ValueError(f"`options.{unknown[0]}` is not an option here{where}; there are {names}")

    def _check_encoding(self) -> None:
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError as error:
            raise ValueError(f"`options.encoding`: {error}") from error
        if self.encoding is not None and self.discovers:
            raise ValueError("files whose columns are discovered are UTF-8: remove `options.encoding`")

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
        """Character between two fields of a CSV file."""
        return self.option("sep", self.option("delimiter", ",")).replace("\\t", "\t")

    @property
    def encoding(self) -> str | None:
        """Encoding of text files; None for UTF-8."""
        declared = self.option("encoding", self.option("charset", "utf-8"))
        return None if declared.lower().replace("_", "-") in ("utf-8", "utf8") else declared

    def is_set(self, name: str) -> bool:
        """True if an option has the value true."""
        return self.option(name, "false").lower() == "true"

    def option(self, name: str, default: str) -> str:
        """Value of an option, whose name has no case."""
        return next((value for key, value in self.options.items() if key.lower() == name.lower()), default)
