"""Every error that Headwater raises on purpose.

    HeadwaterError
    ├── InputError                 fix the input, then call again          exit 2
    │   ├── SettingError           a setting has a value that can't be used
    │   ├── BadAddressError        text that is not `topic/partition@offset`
    │   ├── BadEventError          an event that can't be taken (in `catalog.ingest.bad_event`)
    │   ├── TopicNotFoundError
    │   ├── UnknownJobError
    │   ├── UnsupportedVersionError  of Spark, Java, PostgreSQL or a data directory
    │   ├── PortTakenError         somebody else listens there
    │   ├── CheckpointError        damaged, or of another query
    │   │   └── CheckpointInUseError  another driver holds it
    │   ├── LineageIndexError      missing, damaged, or another table
    │   ├── LineageTableError      a table whose rows can't be followed, or not written
    │   ├── StateLimitError        a query keeps more than it may
    │   ├── ArchiveError           missing, damaged, another table, or of another topic
    │   │   └── ArchiveGapError    records are gone that were not archived yet
    │   ├── ReplayRefusedError     a replay that would not be what was asked for, or never end
    │   ├── UnknownReplayError     no replay has that id
    │   ├── AlertRulesError        a rules file that can't be used
    │   ├── BadConditionError      a condition that is no question, or has unknown names
    │   ├── EgressRefusedError     a channel leads where messages may not go
    │   ├── UnsafeDeliveryError    settings under which a delivery mode could not keep its promise
    │   └── NotInstalledError      an extra, a jar or a runtime is not installed
    ├── UnavailableError           may work later, as it stands            exit 3
    │   ├── BrokerUnavailableError
    │   ├── DatabaseUnavailableError
    │   ├── CatalogUnavailableError  events that it was to hear of still wait
    │   ├── QueryTimeoutError      a question took longer than the setting allows
    │   ├── TooBusyError           too much waits already
    │   ├── NotificationError      a channel did not take a message
    │   ├── ServiceAnswerError     the lineage service does not answer
    │   ├── ServiceStartError      a local service did not answer in time
    │   ├── DownloadError
    │   └── DiskFullError
    ├── OutcomeUnknownError        it may have happened: look before a retry  exit 1
    │   └── DeliveryError          records that were not acknowledged
    ├── QueryFailedError           a streaming query ended; a new start goes on  exit 1
    ├── CheckFailedError           a check ran and found something wrong    exit 1
    │   └── ExpectationFailedError  a row broke what was expected, and ended its write
    ├── ApiError                   not success (in `catalog.api.problems`)  exit 1
    ├── FaultInjectedError         a test asked for it (in `settings.fault_points`)   exit 1
    ├── BarrierTimeoutError        a test's own mistake (in `settings.fault_points`)  exit 1
    └── InternalError              a bug in Headwater                       exit 1

The groups say what a caller can do. The text says what happened and with which value; the
hint names the setting or the command that changes it. Attributes carry the same facts.
"""

from __future__ import annotations

from typing import Any, ClassVar


class HeadwaterError(Exception):
    """Base of all. `facts` hold the values of the message, for logs and `--json`."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts

    def __str__(self) -> str:
        return self.message


class InputError(HeadwaterError):
    """The caller has to change something first."""

    exit_code = 2


class SettingError(InputError):
    """A setting has a value that can't be used."""


class BadAddressError(InputError):
    """Text that is not an address."""


class TopicNotFoundError(InputError):
    """The broker has no such topic."""


class UnknownJobError(InputError):
    """No shipped job has that name, and no file is there."""


class UnsupportedVersionError(InputError):
    """A version that was not run together with the others."""


class PortTakenError(InputError):
    """Somebody else listens on a port that a local service needs."""


class CheckpointError(InputError):
    """A checkpoint that is damaged, or belongs to another query."""


class CheckpointInUseError(CheckpointError):
    """Another driver holds the checkpoint."""


class LineageIndexError(InputError):
    """The index of edges is missing, damaged, or not what it should be."""


class LineageTableError(InputError):
    """A table can't be read, or has other columns than the rows that are to be written."""


class StateLimitError(InputError):
    """The state of a query has reached the limit that it was given."""


class ArchiveError(InputError):
    """An archive is missing, damaged, or not what it should be."""


class ArchiveGapError(ArchiveError):
    """Records are gone from the topic before they were archived."""


class ReplayRefusedError(InputError):
    """A replay of records that are not all there, or back into where they came from."""


class UnknownReplayError(InputError):
    """No replay has that id."""


class UnsafeDeliveryError(InputError):
    """Settings under which a delivery mode could not keep its promise."""


class AlertRulesError(InputError):
    """The rules file of alerts is missing, or has a mistake."""


class BadConditionError(InputError):
    """A condition that can't be used; `line` and `column` say where."""


class EgressRefusedError(InputError):
    """A channel whose target is not among those that messages may be sent to."""


class NotInstalledError(InputError):
    """An extra, a jar or a runtime is not installed."""


class UnavailableError(HeadwaterError):
    """Something outside did not answer; the same call may work later."""

    exit_code = 3


class BrokerUnavailableError(UnavailableError):
    """Kafka did not answer within the bound."""


class DatabaseUnavailableError(UnavailableError):
    """PostgreSQL did not answer within the bound."""


class CatalogUnavailableError(UnavailableError):
    """The lineage service did not take what waits for it."""


class QueryTimeoutError(UnavailableError):
    """A question took longer than the setting allows."""


class TooBusyError(UnavailableError):
    """Too many requests wait already."""


class NotificationError(UnavailableError):
    """A channel did not take a message."""


class ServiceAnswerError(UnavailableError):
    """The lineage service does not answer, or not as it should."""


class ServiceStartError(UnavailableError):
    """A local service ended or stayed silent while it was being started."""


class DownloadError(UnavailableError):
    """A pinned file could not be fetched, or was not the one that is pinned."""


class DiskFullError(UnavailableError):
    """There is less free space than the setting asks for."""


class OutcomeUnknownError(HeadwaterError):
    """The effect may or may not be there: look before trying again."""


class DeliveryError(OutcomeUnknownError):
    """Records that Kafka refused or did not acknowledge within the bound."""


class QueryFailedError(HeadwaterError):
    """A streaming query failed; started again it goes on where it stopped."""


class CheckFailedError(HeadwaterError):
    """A check ran to its end and found something wrong."""


class ExpectationFailedError(CheckFailedError):
    """A row broke an expectation of the severity `fail`."""


class InternalError(HeadwaterError):
    """A bug: please report it with `--debug` output."""
