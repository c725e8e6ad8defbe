"""Every error that Headwater raises on purpose.

    HeadwaterError
    ├── InputError                 fix the input, then call again          exit 2
    │   ├── SettingError           a setting has an invalid value
    │   ├── BadAddressError        text that is not `topic/partition@offset`
    │   ├── BadEventError          an invalid event (in `catalog.ingest.checks`)
    │   ├── TopicNotFoundError
    │   ├── UnknownJobError
    │   ├── UnsupportedVersionError  of Spark, Java, PostgreSQL or a data directory
    │   ├── PortTakenError         another process listens on the port
    │   ├── CheckpointError        damaged, or of another query
    │   │   └── CheckpointInUseError  another driver uses it
    │   ├── LineageIndexError      missing, damaged, or another table
    │   ├── LineageTableError      a table that can't be traced or written
    │   ├── StateLimitError        the state of a query exceeds its limit
    │   ├── ArchiveError           missing, damaged, another table, or of another topic
    │   │   └── ArchiveGapError    records were deleted before they were archived
    │   ├── ReplayRefusedError     a replay that would be incomplete or would never end
    │   ├── UnknownReplayError     no replay has that id
    │   ├── AlertRulesError        an invalid rules file
    │   ├── BadConditionError      a condition that is not boolean, or has unknown names
    │   ├── EgressRefusedError     the target of a channel is not allowed
    │   ├── UnsafeDeliveryError    settings with which a delivery mode can't keep its guarantee
    │   └── NotInstalledError      an extra, a jar or a runtime is not installed
    ├── UnavailableError           the same call may succeed later          exit 3
    │   ├── BrokerUnavailableError
    │   ├── NotEnoughReplicasError  too few replicas are in sync for a write
    │   ├── QuotaExceededError     the cluster limits the rate of requests
    │   ├── DatabaseUnavailableError
    │   ├── SchemaMismatchError    the catalog's database has the schema of another version
    │   ├── CatalogUnavailableError  events are still spooled
    │   ├── QueryTimeoutError      a query exceeded its time limit
    │   ├── TooBusyError           too many requests are queued
    │   ├── NotificationError      a channel did not accept a message
    │   ├── ServiceResponseError   the lineage service does not respond
    │   ├── ServiceStartError      a local service did not start in time
    │   ├── DownloadError
    │   └── DiskFullError
    ├── KafkaRefusedError          change ACLs, credentials or the cluster's configuration  exit 4
    │   ├── AuthenticationError    the cluster does not accept the client's credentials
    │   ├── AuthorizationError     the principal lacks a permission
    │   ├── PolicyViolationError   a policy or a limit of the cluster
    │   ├── ReplicationFactorError  the cluster has too few brokers for the replicas
    │   └── RecordRejectedError    the topic does not accept the record
    │       └── RecordTooLargeError
    ├── OutcomeUnknownError        it may have happened: check before a retry  exit 1
    │   ├── DeliveryError          records that were not acknowledged
    │   └── ProducerStateError     the broker aborted a producer's transaction or lost its state
    │       └── ProducerFencedError  another producer uses the same transactional id
    ├── QueryFailedError           a streaming query ended; a restart continues it  exit 1
    ├── CheckFailedError           a check ran and failed                   exit 1
    │   └── ExpectationFailedError  a row violated an expectation and ended the write
    ├── WriteInterruptedError      a write was cut off (in `collector.application`)  exit 1
    ├── ApiError                   an HTTP error (in `catalog.api.problems`)  exit 1
    ├── FaultInjectedError         injected by a test (in `settings.fault_points`)   exit 1
    ├── BarrierTimeoutError        a mistake in a test (in `settings.fault_points`)  exit 1
    └── InternalError              a bug in Headwater                       exit 1

The groups state what a caller can do. The message states what happened and with which value; the
hint names the setting or the command that changes it. Attributes carry the same values. An error
with a `cause`, such as a query that failed because Kafka refused a record, has its exit code.
"""

from __future__ import annotations

from typing import Any, Self


class HeadwaterError(Exception):
    """Base of all errors. Keyword arguments become attributes: the values of the message."""

    exit_code: int = 1
    cause: HeadwaterError | None = None

    def __init__(self, message: str, *, hint: str | None = None, **attributes: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self._names = tuple(attributes)
        for name, value in attributes.items():
            setattr(self, name, value)

    def with_cause(self, cause: HeadwaterError | None) -> Self:
        """This error, with the exit code of the error that explains it."""
        if cause is not None:
            self.cause, self.exit_code = cause, cause.exit_code
        return self

    @property
    def attributes(self) -> dict[str, Any]:
        """The values of the message by name, for logs and `--json`."""
        return {name: getattr(self, name) for name in self._names}

    def __str__(self) -> str:
        return self.message


class InputError(HeadwaterError):
    """The caller has to change the input first."""

    exit_code = 2


class SettingError(InputError):
    """A setting has an invalid value."""


class BadAddressError(InputError):
    """Text that is not an address."""


class TopicNotFoundError(InputError):
    """The broker has no such topic."""


class UnknownJobError(InputError):
    """There is neither a shipped job nor a file of that name."""


class UnsupportedVersionError(InputError):
    """A version that was not tested together with the others."""


class PortTakenError(InputError):
    """Another process listens on a port that a local service needs."""


class CheckpointError(InputError):
    """A checkpoint that is damaged, or belongs to another query."""


class CheckpointInUseError(CheckpointError):
    """Another driver uses the checkpoint."""


class LineageIndexError(InputError):
    """The lineage index is missing, damaged, or another table."""


class LineageTableError(InputError):
    """A table can't be read, or its columns do not match the rows to write."""


class StateLimitError(InputError):
    """The state of a query has reached its limit."""


class ArchiveError(InputError):
    """An archive is missing, damaged, another table, or of another topic."""


class ArchiveGapError(ArchiveError):
    """Records were deleted from the topic before they were archived."""


class ReplayRefusedError(InputError):
    """A replay with missing records, or with an output that is also its source."""


class UnknownReplayError(InputError):
    """No replay has that id."""


class UnsafeDeliveryError(InputError):
    """Settings with which a delivery mode can't keep its guarantee."""


class AlertRulesError(InputError):
    """The alert rules file is missing or invalid."""


class BadConditionError(InputError):
    """An invalid condition; `line` and `column` are the position of the mistake."""

    line: int
    column: int


class EgressRefusedError(InputError):
    """The target of a channel is neither public nor allowed."""


class NotInstalledError(InputError):
    """An extra, a jar or a runtime is not installed."""


class UnavailableError(HeadwaterError):
    """An external system did not respond; the same call may succeed later."""

    exit_code = 3


class BrokerUnavailableError(UnavailableError):
    """Kafka did not respond within the timeout."""


class NotEnoughReplicasError(UnavailableError):
    """Fewer replicas of a partition are in sync than `min.insync.replicas` requires."""


class QuotaExceededError(UnavailableError):
    """The client has used up its quota; the cluster accepts it again later."""


class DatabaseUnavailableError(UnavailableError):
    """PostgreSQL did not respond within the timeout."""


class SchemaMismatchError(UnavailableError):
    """The catalog's database has another schema than this service, which therefore only reads."""


class CatalogUnavailableError(UnavailableError):
    """The lineage service did not accept the spooled events."""


class QueryTimeoutError(UnavailableError):
    """A query took longer than the setting allows."""


class TooBusyError(UnavailableError):
    """Too many requests are queued."""


class NotificationError(UnavailableError):
    """A channel did not accept a message."""


class ServiceResponseError(UnavailableError):
    """The lineage service does not respond, or sends an invalid response."""


class ServiceStartError(UnavailableError):
    """A local service exited or did not respond while it was started."""


class DownloadError(UnavailableError):
    """A pinned file could not be downloaded, or has another checksum."""


class DiskFullError(UnavailableError):
    """There is less free disk space than the setting requires."""


class KafkaRefusedError(HeadwaterError):
    """Kafka refuses a request until ACLs, credentials or configuration are changed."""

    exit_code = 4


class AuthenticationError(KafkaRefusedError):
    """Kafka does not accept the client's credentials or its certificate."""


class AuthorizationError(KafkaRefusedError):
    """An ACL that the principal of the client needs is missing."""


class PolicyViolationError(KafkaRefusedError):
    """A policy or a limit of the cluster forbids the request."""


class ReplicationFactorError(KafkaRefusedError):
    """The cluster can't place as many replicas as requested."""


class RecordRejectedError(KafkaRefusedError):
    """The topic does not accept a record, such as for its timestamp or a missing key."""


class RecordTooLargeError(RecordRejectedError):
    """A record is larger than the client or the topic allows."""


class OutcomeUnknownError(HeadwaterError):
    """The operation may or may not have succeeded: check before a retry."""


class DeliveryError(OutcomeUnknownError):
    """Records that Kafka rejected or did not acknowledge within the timeout."""


class ProducerStateError(OutcomeUnknownError):
    """The broker aborted the transaction of a producer, or lost the producer's state."""


class ProducerFencedError(ProducerStateError):
    """Another producer uses the same transactional id, or the transaction took too long."""


class QueryFailedError(HeadwaterError):
    """A streaming query failed; a restart continues where it stopped."""


class CheckFailedError(HeadwaterError):
    """A check ran to its end and failed."""


class ExpectationFailedError(CheckFailedError):
    """A row violated an expectation of severity `fail`."""


class InternalError(HeadwaterError):
    """A bug: please report it with `--debug` output."""
