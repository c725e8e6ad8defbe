"""Writes each visit unchanged, with the job's name, version and micro-batch as headers."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import faultpoints
from headwater.jobs.options import StreamOptions, stream_options
from headwater.kafka import ensure_topic
from headwater.rowlineage.columns import stamped_headers
from headwater.rowlineage.headers import BATCH_VERSION, JOB_NAME, JOB_VERSION, JobStamp
from headwater.settings import Settings
from headwater.spark import StopSignal, create_session, read_topic_stream, run_until_stopped

HEADER_ORDER = (JOB_VERSION, JOB_NAME, BATCH_VERSION)


def decorate(visits: DataFrame, stamp: JobStamp) -> DataFrame:
    """Key and value as they are, unread; the stamp before the headers of others."""
    headers = stamped_headers(stamp, HEADER_ORDER, F.col("headers"))
    return visits.select("key", "value", headers.alias("headers"))


@stream_options(job_name="visits_decorator", input_topic="visits", output_topic="visits-decorated")
def main(settings: Settings, options: StreamOptions) -> None:
    """Copy `visits` to `visits-decorated`; each record says which job and batch wrote it."""
    if settings.jobs.create_topics:
        partitions = ensure_topic(options.input_topic, 2, settings).partitions
        ensure_topic(options.output_topic, partitions, settings)
    options.say(f"{options.input_topic} -> {options.output_topic}, starting Spark")
    spark = create_session(options.job_name, settings, watch=options.watch_download)
    visits = read_topic_stream(
        spark,
        options.input_topic,
        settings,
        bootstrap_servers=options.bootstrap_servers,
        starting_offsets=options.starting_offsets,
    )

    def write(batch: DataFrame, batch_id: int) -> None:
        stamp = JobStamp(options.job_name, options.job_version, batch_id)
        faultpoints.reach("before_batch_write")
        decorate(batch, stamp).write.format("kafka").options(
            **{"kafka.bootstrap.servers": options.bootstrap_servers, "topic": options.output_topic}
        ).save()
        faultpoints.reach("after_batch_write_before_commit")

    stop = StopSignal()
    query = (
        visits.writeStream.foreachBatch(stop.guard(write))
        .option("checkpointLocation", str(options.checkpoint))
        .trigger(**options.trigger_arguments())
        .queryName(options.job_name)
        .start()
    )
    run_until_stopped(query, stop, settings, options.say)


if __name__ == "__main__":
    main()
