"""Base models of conf files: strict keys, and a map with exactly one of several keys."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator


class Strict(BaseModel):
    """A frozen model that refuses unknown keys and never shows a value in an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class OneOf(Strict):
    """A map with exactly one of its keys, such as `{kafka: {...}}`."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    # Fields that are allowed in addition to the one key.
    beside: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        fields = type(self).model_fields
        names = {name: fields[name].alias or name for name in self._kinds()}
        given = [key for name, key in names.items() if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"expected exactly one of {', '.join(names.values())}; found {found}")
        return self

    @classmethod
    def _kinds(cls) -> list[str]:
        return [name for name in cls.model_fields if name not in cls.beside]

    @property
    def kind(self) -> str:
        """Return the key that is set."""
        return next(name for name in self._kinds() if getattr(self, name) is not None)

    @property
    def chosen(self) -> Any:
        """Return the model below that key."""
        return getattr(self, self.kind)
