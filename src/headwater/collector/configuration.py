"""The Spark configuration of a session with lineage: the listener's own keys, and who gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import SecretStr
from pyspark import SparkConf, SparkContext

from headwater.settings import Settings, running_under_spark_submit
from headwater.spark.connectors import LINEAGE_PLUGIN

LISTENER = "io.openlineage.spark.agent.OpenLineageSparkListener"
LISTENERS, PLUGINS = "spark.extraListeners", "spark.plugins"
TRANSPORT, URL = "spark.openlineage.transport.type", "spark.openlineage.transport.url"
NAMESPACE = "spark.openlineage.namespace"
PARENT_JOB, PARENT_RUN = "spark.openlineage.parentJobName", "spark.openlineage.parentRunId"
PARENT_NAMESPACE = "spark.openlineage.parentJobNamespace"
_OF_LINEAGE = "spark.openlineage."
_PARENT = {
    PARENT_JOB: "parent_job",
    PARENT_RUN: "parent_run_id",
    PARENT_NAMESPACE: "parent_namespace",
}
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
        **({PARENT_NAMESPACE: lineage.parent_namespace} if lineage.parent_namespace else {}),
        **given,
    }
    through_spool = configuration[TRANSPORT] == "http"
    configuration[LISTENERS] = _joined(given.get(LISTENERS), LISTENER)
    if through_spool:
        configuration[PLUGINS] = _joined(given.get(PLUGINS), LINEAGE_PLUGIN)
    else:
        # The default address is of no use to another transport, which may refuse it.
        configuration = {k: v for k, v in configuration.items() if k != URL or k in given}
    changed = _changed(settings, configuration, given)
    return LineageConfiguration(configuration, changed, through_spool)


def submitted() -> dict[str, str]:
    """What `spark-submit --conf` says of lineage; elsewhere nothing."""
    if not running_under_spark_submit():
        return {}
    # It is in the properties of the Java that waits; without a connection Python knows of none.
    SparkContext._ensure_initialized()  # noqa: SLF001
    return {
        key: value
        for key, value in SparkConf().getAll()
        if key.startswith(_OF_LINEAGE) or key in (LISTENERS, PLUGINS)
    }


def as_submitted(settings: Settings) -> Settings:
    """The settings for a query of our own, which needs no listener."""
    given = {key: value for key, value in submitted().items() if key.startswith(_OF_LINEAGE)}
    return lineage_configuration("", settings, given).settings if given else settings


def _joined(given: str | None, own: str) -> str:
    names = [name.strip() for name in (given or "").split(",") if name.strip()]
    return ",".join([*names, *([] if own in names else [own])])


def _changed(
    settings: Settings, configuration: Mapping[str, str], given: Mapping[str, str]
) -> Settings:
    """Headwater sends where Spark's configuration says, and names the parent that it names."""
    url = configuration.get(URL, settings.catalog.url)
    catalog = settings.catalog.model_copy(update={"url": url})
    if _API_KEY in configuration:
        key = SecretStr(configuration[_API_KEY])
        catalog = catalog.model_copy(update={"api_key": key})
    named = {"namespace": configuration[NAMESPACE]}
    # Of the user's own alone: the listener wants a parent in any case, be it the job itself.
    for setting, name in _PARENT.items():
        if setting in given:
            named[name] = given[setting]
    lineage = settings.lineage.model_copy(update=named)
    return settings.model_copy(update={"catalog": catalog, "lineage": lineage})
