"""Makes a virtual environment whose packages come first, followed by those of the running Python.

    .venv/bin/python tests/lines/environment.py .venv/lines/3.5

A line of Spark differs in pyspark and few others: a complete environment for each would take
several gigabytes and minutes.
"""

from __future__ import annotations

import sys
import venv
from pathlib import Path


def make(folder: Path) -> None:
    venv.create(folder, clear=True, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = [each / "lib" / version / "site-packages" for each in (folder, Path(sys.prefix))]
    # A `.pth` file may have statements; only `addsitedir` reads the `.pth` file of an editable
    # install in turn.
    file = packages[0] / "base_environment.pth"
    file.write_text(f"import site; site.addsitedir({str(packages[1].absolute())!r})\n")
    script = folder / "bin" / "headwater"
    python = (folder / "bin" / "python").absolute()
    script.write_text(f"#!{python}\nfrom headwater.cli import main\nmain()\n")
    script.chmod(0o755)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
