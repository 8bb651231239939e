"""Settings from the environment, in one table that also feeds the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from platformdirs import user_cache_path
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from gradassay.goldens.errors import UsageError


class Settings(BaseSettings):
    """What every room reads; each is the environment variable GRADASSAY_ and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="GRADASSAY_", env_ignore_empty=True, frozen=True)

    store: str = Field(
        default="",
        description="where goldens and records are kept: dir:PATH, sqlite:///PATH, http(s)://HOST or "
        "postgresql+psycopg://HOST/DATABASE; empty: MLflow on SQLite in .gradassay of the working directory",
    )
    artifacts: str = Field(
        default="",
        description="artifact root of an MLflow store reached by its database (s3://BUCKET/PATH, a folder); "
        "SQLite: by default beside the database; servers have their own",
    )
    cache: Path = Field(
        default_factory=lambda: user_cache_path("gradassay"),
        description="folder for files fetched from a remote store, by digest; may be emptied at any time",
    )

    @classmethod
    def load(cls, **given: object) -> Self:
        """The settings of this process, those given (and not None) before the environment's.

        Raises UsageError that names the variable which cannot be read.
        """
        chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        try:
            return cls(**chosen)
        except ValidationError as error:
            problem = error.errors()[0]
            name, *inside = (str(part) for part in problem["loc"])
            where = f", {'.'.join(inside)}" if inside else ""
            raise UsageError(
                f"GRADASSAY_{name.upper()}{where} = {problem['input']!r}: {problem['msg']}", hint="correct or unset it"
            ) from error
        except SettingsError as error:
            raise UsageError(f"{error}: {error.__cause__}", hint="it must be JSON; correct or unset it") from error
