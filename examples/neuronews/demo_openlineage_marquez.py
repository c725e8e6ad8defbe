"""Starts the services, runs both jobs and checks what the catalog knows of them.

python demo_openlineage_marquez.py
"""

from __future__ import annotations

from headwater.cli import main

if __name__ == "__main__":
    main(["demo", "lakehouse"])
