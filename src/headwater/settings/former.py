"""The former section `articles`, which the two jobs that write news articles still read."""

from __future__ import annotations

import logging
from typing import Self

from pydantic import Field, model_validator

from headwater.settings.sections import Section

_LOG = logging.getLogger(__name__)


class FormerArticles(Section):
    """Values under former names, which keep working with a warning."""

    files: str | None = Field(None, min_length=1, description="Use --files or SCRAPED_DATA_PATH.")
    topic: str | None = Field(None, min_length=1, description="Use --input-topic or KAFKA_TOPIC.")
    table: str | None = Field(None, min_length=1, description="Use --table or ICEBERG_TABLE.")
    checkpoint: str | None = Field(
        None, min_length=1, description="Use --checkpoint or CHECKPOINT_LOCATION."
    )

    @model_validator(mode="after")
    def _warn(self) -> Self:
        for name, field in type(self).model_fields.items():
            if name in self.model_fields_set:
                current = (field.description or "").removeprefix("Use ").removesuffix(".")
                _LOG.warning("setting `articles.%s` is deprecated: use %s", name, current)
        return self
