"""Types of settings that are local paths."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from headwater.model.local_files import checked_path, checked_table_folder

# A file or folder, and the folder of one or more tables.
LocalPath = Annotated[Path, BeforeValidator(checked_path)]
TableFolder = Annotated[Path, BeforeValidator(checked_table_folder)]
