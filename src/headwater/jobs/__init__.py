"""The shipped jobs. Each is short: a source, a transform, a sink."""

from collections.abc import Mapping

# Name -> module, which is imported when the job is run.
JOBS: Mapping[str, str] = {
    "visits_decorator_job": "headwater.jobs.visits_decorator_job",
    "fifo_orderer_individual_send_job": "headwater.jobs.fifo_orderer_individual_send_job",
    "fifo_orderer_bulk_send_job": "headwater.jobs.fifo_orderer_bulk_send_job",
    "fifo_orderer_bulk_idempotent_job": "headwater.jobs.fifo_orderer_bulk_idempotent_job",
    "visits_ads_enrichment_job": "headwater.jobs.visits_ads_enrichment_job",
    "watermark_join_job": "headwater.jobs.watermark_join_job",
    "visits_reducer_job": "headwater.jobs.visits_reducer_job",
    "data_synchronization_job": "headwater.jobs.data_synchronization_job",
    "visits_converter_streaming_job": "headwater.jobs.visits_converter_streaming_job",
    "visits_converter_reprocessing_job": "headwater.jobs.visits_converter_reprocessing_job",
    "lineage_index_job": "headwater.jobs.lineage_index_job",
    "batch_write_raw_with_lineage": "headwater.jobs.batch_write_raw_with_lineage",
    "stream_write_raw_with_lineage": "headwater.jobs.stream_write_raw_with_lineage",
}

# Names for `headwater replay`: the transform of a job, without its source and sink.
TRANSFORMS: Mapping[str, str] = {
    "visits_converter": "headwater.jobs.shared_job_logic:VISITS_CONVERTER",
    "visits_decorator": "headwater.jobs.visits_decorator_job:VISITS_DECORATOR",
    "visits_reducer": "headwater.jobs.visits_reducer_job:VISITS_REDUCER",
}

__all__ = ["JOBS", "TRANSFORMS"]
