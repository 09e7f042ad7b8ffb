"""Files that arrive in a folder: `source: {files: {...}}`."""

from __future__ import annotations

import codecs
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tidemill.spec.location import Folder, pattern_fault
from tidemill.spec.options import FilesOptions
from tidemill.spec.strict import Strict
from tidemill.spec.text import ColumnList
from tidemill.spec.units import Count, Duration, DurationOrOff, Size

# Handling of a file that was read.
After = Literal["keep", "archive", "delete"]

# Auto Loader's modes, with the names that a Delta sink uses.
Evolution = Literal["add_columns", "rescue", "fail", "none"]

FileFormat = Literal["json", "csv", "parquet", "orc", "text", "avro"]

# Options of Spark's readers that Tidemill's readers support, by format. Names are case-insensitive.
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

# Keys for the order in which a stream takes files, and for files that it has read.
FOR_STREAMS = frozenset(
    {"max_files_per_batch", "max_bytes_per_batch", "order", "max_file_age", "after", "keep_for"}
)

# Formats that Tidemill decodes, one record at a time.
_FORMATS_OF_RECORDS = ("json", "csv", "text", "protobuf")


class FilesSource(Strict):
    """Files that arrive complete in a folder. Nothing else may change or remove them afterwards.

    To add a complete file, write it elsewhere on the same storage, or under a name that begins with `.` or
    `_`, and rename it. Object stores show a file only after its upload has ended.
    """

    path: Folder = Field(
        description="Folder, relative to the storage root, or a URI. It may contain `*`. Folders such as "
        "`day=2026-01-01` below it are partition columns if the schema names them."
    )
    recursive: bool = Field(
        True,
        description="If true, the files of all folders below `path` are read. If false, only files in `path` "
        "and in folders such as `day=2026-01-01` are read.",
    )
    format: FileFormat | None = Field(
        None,
        description="Format of every file. With a `payload`, the payload decides the format. A file whose "
        "name ends with .gz, .bz2, .xz, .zst, .deflate or .zlib is decompressed.",
    )
    schema_: ColumnList | None = Field(
        None,
        alias="schema",
        description="Columns as Spark DDL, e.g. `device string, signal double`, in at most 200,000 "
        "characters. These columns are fixed. Alternatives are `schema_evolution`, which infers columns, and "
        "`payload`, which reads them from a file in conf/schemas.",
    )
    schema_evolution: Evolution | None = Field(
        None,
        description="Instead of `schema`, for JSON and CSV files: columns are inferred from the first files "
        "and stored in numbered versions. The value is the handling of a property without a column. "
        "add_columns: it becomes a column before the first row with it is written. rescue: it is kept in the "
        "column _rescued_data. fail: the pipeline stops. none: it is left out. A value that does not have "
        "its column's type goes to _rescued_data, or with none to the quarantine. A CSV file must begin with "
        "a header; the order of its names does not matter. All lines of a CSV file without a header go to "
        "the quarantine. Folders such as `day=2026-01-01` are not columns.",
    )
    schema_hints: ColumnList | None = Field(
        None,
        description="Columns that are declared instead of inferred, as Spark DDL: string, long, double, "
        "decimal, boolean, timestamp, date, array, struct, map. CSV files cannot have array, struct and map. "
        "Timestamps are never inferred, so declare them here.",
    )
    max_files_per_batch: Count | None = Field(None, description="Maximum number of files in one batch.")
    max_bytes_per_batch: Annotated[Size, Field(gt=0)] | None = Field(
        None,
        description="Instead of max_files_per_batch: maximum total size of the files in one batch. A batch "
        "has at least one file.",
    )
    order: Literal["oldest", "newest"] = Field(
        "oldest",
        description="Order in which new files are read, by modification time. Files with the same time are "
        "read in the order of their names.",
    )
    max_file_age: DurationOrOff = Field(
        "off",
        description="Files that are older than the newest read file by more than this are skipped and "
        "forgotten. By default no file is skipped, and the driver remembers all files.",
    )
    on_invalid: Literal["quarantine", "fail"] = Field(
        "quarantine",
        description="Handling of records that do not fit the schema, and of files that cannot be read. "
        "quarantine: they go to the quarantine table, and the pipeline continues. fail: the pipeline stops. "
        "With a `payload`, set this key in the payload.",
    )
    after: After = Field(
        "keep",
        description="Handling of files that were read and that no stream, rewind, older generation or backup "
        "needs any more. archive: they are moved to the folder `archived`, which is below the storage root, "
        "or next to the source's folder if that is elsewhere on this machine. Backfills read them there, and "
        "a reset moves them back. delete: they are deleted permanently. Backfills that would replace rows by "
        "fewer rows are refused from then on. Nothing else may read the folder. The DAG checkpoint_hygiene "
        "does this daily, `tidemill source clean` does it now.",
    )
    keep_for: Duration | None = Field(
        None,
        description="Minimum age of a file, by its modification time, before `after` applies. It cannot be "
        "less than the time that the pipeline can be rewound, which is the default.",
    )
    options: FilesOptions = Field(
        {},
        description="Options of the format, with Spark's names. All formats: `pathGlobFilter`. CSV: "
        "`header`, `sep`, `quote`, `escape`, `comment`, `nullValue` and `encoding`. JSON: `lineSep`, "
        "`multiLine`, `encoding` and `primitivesAsString`. Text: `lineSep`, `wholetext` and `encoding`.",
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
        """Refuse options that the reader of a format does not support.

        Raises:
            ValueError: Names the option and the supported ones.
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

    @field_validator("path")
    @classmethod
    def _wildcards_are_a_pattern(cls, path: str) -> str:
        if (fault := pattern_fault(path)) is not None:
            raise ValueError(
                f"Spark cannot read the wildcards of this path: {fault}. Write `?` for a bracket or brace in "
                "a name"
            )
        return path

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
        """Return True if the columns are inferred from the files."""
        return self.schema_evolution is not None

    @property
    def rescues(self) -> bool:
        """Return True if rows have the column `_rescued_data`."""
        return self.schema_evolution not in (None, "none")

    @property
    def separator(self) -> str:
        """Return the character between two fields of a CSV file."""
        return self.option("sep", self.option("delimiter", ",")).replace("\\t", "\t")

    @property
    def encoding(self) -> str | None:
        """Return the encoding of text files; None for UTF-8."""
        declared = self.option("encoding", self.option("charset", "utf-8"))
        return None if declared.lower().replace("_", "-") in ("utf-8", "utf8") else declared

    def is_set(self, name: str) -> bool:
        """Return True if an option has the value true."""
        return self.option(name, "false").lower() == "true"

    def option(self, name: str, default: str) -> str:
        """Return the value of an option; its name is case-insensitive."""
        return next((value for key, value in self.options.items() if key.lower() == name.lower()), default)
