"""Starts the services, runs both jobs and checks their lineage in the catalog.

python demo_openlineage_marquez.py
"""

from __future__ import annotations

from headwater.cli import main

if __name__ == "__main__":
    main(["demo", "lakehouse"])
