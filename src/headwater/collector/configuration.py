"""The lineage settings of a Spark session, and those that the user has set for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import SecretStr
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from headwater.settings import Settings, running_under_spark_submit
from headwater.spark.compat import configuration_of
from headwater.spark.configuration import LINEAGE_PLUGIN, joined_list
from headwater.spark.session import user_configuration

LISTENER = "io.openlineage.spark.agent.OpenLineageSparkListener"
LISTENERS, PLUGINS = "spark.extraListeners", "spark.plugins"
TRANSPORT, URL = "spark.openlineage.transport.type", "spark.openlineage.transport.url"
NAMESPACE = "spark.openlineage.namespace"
PARENT_JOB, PARENT_RUN = "spark.openlineage.parentJobName", "spark.openlineage.parentRunId"
PARENT_NAMESPACE = "spark.openlineage.parentJobNamespace"
_LINEAGE_PREFIX = "spark.openlineage."
_PARENT = {
    PARENT_JOB: "parent_job",
    PARENT_RUN: "parent_run_id",
    PARENT_NAMESPACE: "parent_namespace",
}
_API_KEY = "spark.openlineage.transport.auth.apiKey"


@dataclass(frozen=True)
class LineageConfiguration:
    """Spark's configuration, and the settings with the values that it overrides.

    Attributes:
        added: the part that Headwater has added to the user's.
        through_spool: whether the listener's events go through Headwater's spool. With a transport
            other than `http` the listener sends them itself.
    """

    spark: Mapping[str, str]
    settings: Settings
    through_spool: bool
    added: Mapping[str, str]


def lineage_configuration(
    app_name: str, settings: Settings, additional: Mapping[str, str]
) -> LineageConfiguration:
    """Configuration for lineage. The user's `additional` keys win; lists are joined."""
    lineage = settings.lineage
    configuration = {
        TRANSPORT: "http",
        URL: settings.catalog_url,
        NAMESPACE: lineage.namespace,
        PARENT_JOB: lineage.parent_job or app_name,
        **({PARENT_RUN: str(lineage.parent_run_id)} if lineage.parent_run_id else {}),
        **({PARENT_NAMESPACE: lineage.parent_namespace} if lineage.parent_namespace else {}),
        **additional,
    }
    through_spool = configuration[TRANSPORT] == "http"
    configuration[LISTENERS] = joined_list(additional.get(LISTENERS), LISTENER)
    if through_spool:
        configuration[PLUGINS] = joined_list(additional.get(PLUGINS), LINEAGE_PLUGIN)
    else:
        # Other transports have no use for the default address and may reject it.
        configuration = {k: v for k, v in configuration.items() if k != URL or k in additional}
    changed = _changed(settings, configuration, additional)
    added = {key: value for key, value in configuration.items() if key not in additional}
    return LineageConfiguration(configuration, changed, through_spool, added)


def lineage_options(
    settings: Settings, running: SparkSession | None, added: Mapping[str, str]
) -> dict[str, str]:
    """The lineage options that the user has set, in the running session or for a new one.

    Args:
        added: what Headwater has added to the running session.
    """
    if running is None:
        found = user_configuration(settings)
    else:
        values = configuration_of(running).items()
        found = {key: value for key, value in values if added.get(key) != value}
    return {
        key: value
        for key, value in found.items()
        if key.startswith(_LINEAGE_PREFIX) or key in (LISTENERS, PLUGINS)
    }


def spark_submit_options() -> dict[str, str]:
    """Lineage options of `spark-submit --conf`; empty without spark-submit."""
    if not running_under_spark_submit():
        return {}
    # The options are properties of the JVM: Python has to connect to it first.
    SparkContext._ensure_initialized()  # noqa: SLF001
    found = SparkConf().getAll()
    return {key: value for key, value in found if key.startswith(_LINEAGE_PREFIX)}


def with_spark_submit_options(settings: Settings) -> Settings:
    """The settings with the options of `spark-submit`, for queries without the listener."""
    options = spark_submit_options()
    return lineage_configuration("", settings, options).settings if options else settings


def _changed(
    settings: Settings, configuration: Mapping[str, str], additional: Mapping[str, str]
) -> Settings:
    """The settings with the address, key, namespace and parent of Spark's configuration."""
    url = configuration.get(URL, settings.catalog.url)
    catalog = settings.catalog.model_copy(update={"url": url})
    if _API_KEY in configuration:
        key = SecretStr(configuration[_API_KEY])
        catalog = catalog.model_copy(update={"api_key": key})
    named = {"namespace": configuration[NAMESPACE]}
    # Only the user's: the listener always needs a parent, by default the job itself.
    for setting, name in _PARENT.items():
        if setting in additional:
            named[name] = additional[setting]
    lineage = settings.lineage.model_copy(update=named)
    return settings.model_copy(update={"catalog": catalog, "lineage": lineage})
