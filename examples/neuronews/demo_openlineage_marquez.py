"""Starts the services, runs both jobs and checks what the catalog knows of them.

python demo_openlineage_marquez.py
"""

from __future__ import annotations

from headwater.cli.app import headwater

if __name__ == "__main__":
    headwater(["demo", "lakehouse"])
