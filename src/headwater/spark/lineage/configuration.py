"""The Spark configuration of a session with lineage: the listener's own keys, and who gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from headwater.settings import Settings
from headwater.spark.connectors import LINEAGE_PLUGIN

LISTENER = "io.openlineage.spark.agent.OpenLineageSparkListener"
LISTENERS, PLUGINS = "spark.extraListeners", "spark.plugins"
TRANSPORT, URL = "spark.openlineage.transport.type", "spark.openlineage.transport.url"
NAMESPACE = "spark.openlineage.namespace"
PARENT_JOB, PARENT_RUN = "spark.openlineage.parentJobName", "spark.openlineage.parentRunId"
_API_KEY = "spark.openlineage.transport.auth.apiKey"


@dataclass(frozen=True)
class LineageConfiguration:
    """Spark's configuration, and the settings as it changes them.

    Attributes:
        through_spool: the listener's events go through Headwater; with another transport than
            `http` they go where the user sends them, as the listener makes them.
    """

    spark: Mapping[str, str]
    settings: Settings
    through_spool: bool


def lineage_configuration(
    app_name: str, settings: Settings, given: Mapping[str, str]
) -> LineageConfiguration:
    """What a session needs for lineage; `given` is the user's and wins, lists are joined."""
    lineage = settings.lineage
    configuration = {
        TRANSPORT: "http",
        URL: settings.catalog_url,
        NAMESPACE: lineage.namespace,
        PARENT_JOB: lineage.parent_job or app_name,
        **({PARENT_RUN: str(lineage.parent_run_id)} if lineage.parent_run_id else {}),
        **given,
    }
    through_spool = configuration[TRANSPORT] == "http"
    configuration[LISTENERS] = _joined(given.get(LISTENERS), LISTENER)
    if through_spool:
        configuration[PLUGINS] = _joined(given.get(PLUGINS), LINEAGE_PLUGIN)
    else:
        # The default address is of no use to another transport, which may refuse it.
        configuration = {k: v for k, v in configuration.items() if k != URL or k in given}
    return LineageConfiguration(configuration, _changed(settings, configuration), through_spool)


def _joined(given: str | None, own: str) -> str:
    names = [name.strip() for name in (given or "").split(",") if name.strip()]
    return ",".join([*names, *([] if own in names else [own])])


def _changed(settings: Settings, configuration: Mapping[str, str]) -> Settings:
    """Headwater sends where Spark's configuration says."""
    catalog = settings.catalog.model_copy(update={"url": configuration.get(URL)})
    if _API_KEY in configuration:
        key = SecretStr(configuration[_API_KEY])
        catalog = catalog.model_copy(update={"api_key": key})
    lineage = settings.lineage.model_copy(update={"namespace": configuration[NAMESPACE]})
    return settings.model_copy(update={"catalog": catalog, "lineage": lineage})
