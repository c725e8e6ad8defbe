"""Helpers that test modules share, besides fixtures."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import psutil

from headwater.jvm.installed import find_java, java_home_for_spark
from headwater.settings import Settings, child_environment

# Runs the command line: `headwater("topics", "list").stdout`.
Headwater = Callable[..., subprocess.CompletedProcess[str]]


def environment(settings: Settings, **changes: str) -> dict[str, str]:
    """Environment variables that give a child process the settings of the test."""
    return child_environment(
        **{
            "HEADWATER_HOME": str(settings.home_dir),
            "HEADWATER_KAFKA__PORT": str(settings.kafka.port),
            "HEADWATER_KAFKA__CONTROLLER_PORT": str(settings.kafka.controller_port),
            "HEADWATER_POSTGRES__PORT": str(settings.postgres.port),
            "HEADWATER_CATALOG__PORT": str(settings.catalog.port),
            "HEADWATER_CATALOG__PAGE_PORT": str(settings.catalog.page_port),
            "KAFKA_BOOTSTRAP_SERVERS": "",
            **changes,
        }
    )


def java_of_spark(settings: Settings) -> dict[str, str]:
    """Variables by which Spark finds a Java without Headwater, on a machine without one on the
    PATH."""
    if shutil.which("java") or child_environment().get("JAVA_HOME"):
        return {}
    return {"JAVA_HOME": str(java_home_for_spark(find_java(settings), settings))}


def alive(process: psutil.Process) -> bool:
    """Whether the process is running; a zombie is not."""
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
