"""Every error of Kafka has its type and exit code, from the Python client and from Java."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from headwater import errors
from headwater.errors import HeadwaterError
from headwater.jvm.jars import session_jars
from headwater.kafka.client import from_kafka_error
from headwater.kafka.error_kinds import KINDS, kind_of_code, kind_of_java
from headwater.settings import Settings
from headwater.settings.kafka import KafkaSettings

# Of Kafka's own internals, of other kinds of groups, or of features that Headwater does not use.
INTERNAL_CODES = {
    *("NO_ERROR", "UNKNOWN", "LOG_DIR_NOT_FOUND", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"),
    *("MEMBER_ID_REQUIRED", "ELECTION_NOT_NEEDED", "NO_REASSIGNMENT_IN_PROGRESS"),
    *("INCONSISTENT_VOTER_SET", "INVALID_UPDATE_VERSION", "FEATURE_UPDATE_FAILED"),
    *("FENCED_MEMBER_EPOCH", "UNRELEASED_INSTANCE_ID", "UNSUPPORTED_ASSIGNOR"),
    *("STALE_MEMBER_EPOCH", "MISMATCHED_ENDPOINT_TYPE", "UNSUPPORTED_ENDPOINT_TYPE"),
    *("UNKNOWN_CONTROLLER_ID", "UNKNOWN_SUBSCRIPTION_ID", "INVALID_REGISTRATION"),
    *("INVALID_RECORD_STATE", "SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"),
    *("FENCED_STATE_EPOCH", "INVALID_VOTER_KEY", "DUPLICATE_VOTER", "VOTER_NOT_FOUND"),
    *("STREAMS_INVALID_TOPOLOGY", "STREAMS_INVALID_TOPOLOGY_EPOCH", "STREAMS_TOPOLOGY_FENCED"),
    *("_BAD_MSG", "_BAD_COMPRESSION", "_DESTROY", "_CRIT_SYS_RESOURCE", "_PARTITION_EOF"),
    *("_EXISTING_SUBSCRIPTION", "_ASSIGN_PARTITIONS", "_REVOKE_PARTITIONS", "_CONFLICT"),
    *("_STATE", "_OUTDATED", "_INTR", "_KEY_SERIALIZATION", "_VALUE_SERIALIZATION"),
    *("_KEY_DESERIALIZATION", "_VALUE_DESERIALIZATION", "_PARTIAL", "_READ_ONLY", "_NOENT"),
    *("_UNDERFLOW", "_MAX_POLL_EXCEEDED", "_APPLICATION", "_ASSIGNMENT_LOST", "_NOOP"),
    "_LOG_TRUNCATION",
}
INTERNAL_CLASSES = {
    *("Api", "Retriable", "InvalidMetadata", "Interrupt", "Wakeup", "Serialization"),
    *("RecordDeserialization", "UnknownServer", "UnknownMemberId", "IllegalGeneration"),
    *("MemberIdRequired", "LogDirNotFound", "ElectionNotNeeded", "NoReassignmentInProgress"),
    *("InconsistentVoterSet", "InvalidUpdateVersion", "FeatureUpdateFailed", "SnapshotNotFound"),
    *("FencedMemberEpoch", "UnreleasedInstanceId", "UnsupportedAssignor", "StaleMemberEpoch"),
    *("MismatchedEndpointType", "UnsupportedEndpointType", "UnknownControllerId"),
    *("UnknownSubscriptionId", "InvalidRegistration", "InvalidRecordState", "DuplicateVoter"),
    *("ShareSessionNotFound", "InvalidShareSessionEpoch", "FencedStateEpoch", "InvalidVoterKey"),
    *("VoterNotFound", "DuplicateBrokerRegistration", "BrokerIdNotRegistered"),
    *("IneligibleReplica", "InconsistentClusterId", "OffsetMovedToTieredStorage"),
}
EXIT_CODES = {
    "BrokerUnavailableError": 3,
    "NotEnoughReplicasError": 3,
    "QuotaExceededError": 3,
    "AuthenticationError": 4,
    "AuthorizationError": 4,
    "PolicyViolationError": 4,
    "ReplicationFactorError": 4,
    "RecordTooLargeError": 4,
    "RecordRejectedError": 4,
    "ProducerFencedError": 1,
    "ProducerStateError": 1,
    "TopicNotFoundError": 2,
    "UnsupportedVersionError": 2,
    "InputError": 2,
}
EXAMPLES = [
    ("TOPIC_AUTHORIZATION_FAILED", "TopicAuthorization", "AuthorizationError"),
    ("GROUP_AUTHORIZATION_FAILED", "GroupAuthorization", "AuthorizationError"),
    ("CLUSTER_AUTHORIZATION_FAILED", "ClusterAuthorization", "AuthorizationError"),
    (
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "TransactionalIdAuthorization",
        "AuthorizationError",
    ),
    ("SASL_AUTHENTICATION_FAILED", "SaslAuthentication", "AuthenticationError"),
    ("_SSL", "SslAuthentication", "AuthenticationError"),
    ("NOT_ENOUGH_REPLICAS", "NotEnoughReplicas", "NotEnoughReplicasError"),
    (
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NotEnoughReplicasAfterAppend",
        "NotEnoughReplicasError",
    ),
    ("INVALID_REPLICATION_FACTOR", "InvalidReplicationFactor", "ReplicationFactorError"),
    ("PRODUCER_FENCED", "ProducerFenced", "ProducerFencedError"),
    ("INVALID_PRODUCER_EPOCH", "InvalidProducerEpoch", "ProducerFencedError"),
    ("OUT_OF_ORDER_SEQUENCE_NUMBER", "OutOfOrderSequence", "ProducerStateError"),
    ("THROTTLING_QUOTA_EXCEEDED", "ThrottlingQuotaExceeded", "QuotaExceededError"),
    ("POLICY_VIOLATION", "PolicyViolation", "PolicyViolationError"),
    ("MSG_SIZE_TOO_LARGE", "RecordTooLarge", "RecordTooLargeError"),
    ("INVALID_RECORD", "InvalidRecord", "RecordRejectedError"),
    ("REQUEST_TIMED_OUT", "Timeout", "BrokerUnavailableError"),
    ("LEADER_NOT_AVAILABLE", "LeaderNotAvailable", "BrokerUnavailableError"),
    ("COORDINATOR_NOT_AVAILABLE", "CoordinatorNotAvailable", "BrokerUnavailableError"),
    ("UNKNOWN_TOPIC_OR_PART", "UnknownTopicOrPartition", "TopicNotFoundError"),
    ("UNSUPPORTED_VERSION", "UnsupportedVersion", "UnsupportedVersionError"),
    ("TOPIC_ALREADY_EXISTS", "TopicExists", "InputError"),
    ("INVALID_CONFIG", "InvalidConfiguration", "InputError"),
]


def known_codes() -> dict[str, int]:
    """The constants of the installed client."""
    constants = {name: getattr(KafkaError, name) for name in dir(KafkaError)}
    return {
        name: value
        for name, value in constants.items()
        if isinstance(value, int) and name.upper() == name and not name.startswith("__")
    }


def exceptions_in(jar: Path) -> set[str]:
    """The public exceptions of a jar of Kafka's clients, without `Exception`."""
    with zipfile.ZipFile(jar) as content:
        files = [Path(name) for name in content.namelist() if "/common/errors/" in name]
    names = [file.stem for file in files if file.suffix == ".class" and "$" not in file.name]
    return {name.removesuffix("Exception") for name in names}


@pytest.mark.parametrize(("code", "java", "error"), EXAMPLES)
def test_a_code_and_its_java_class_are_the_same_error(code: str, java: str, error: str) -> None:
    raised = from_kafka_error(KafkaError(known_codes()[code]), KafkaSettings(), "asking")
    assert type(raised).__name__ == error
    assert raised.exit_code == EXIT_CODES[error]
    assert "asking" in raised.message
    assert raised.attributes["name"] == code
    kind = kind_of_java(f"{java}Exception")
    assert kind is not None
    assert kind.error is type(raised)


def test_every_code_of_the_client_has_a_kind_or_is_internal() -> None:
    without = {
        name
        for name, code in known_codes().items()
        if kind_of_code(code).error is errors.KafkaRefusedError
    }
    assert without == INTERNAL_CODES & set(known_codes())


def test_every_exception_of_the_java_clients_has_a_kind_or_is_internal(
    headwater_settings: Settings,
) -> None:
    (jar,) = [
        path
        for path in session_jars(("kafka",), headwater_settings)
        if "kafka-clients" in path.name
    ]
    without = {name for name in exceptions_in(jar) if kind_of_java(name) is None}
    assert without == INTERNAL_CLASSES & exceptions_in(jar)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.error.__name__)
def test_a_kind_has_an_exit_code_and_is_listed_once(kind: object) -> None:
    assert {each.error.__name__ for each in KINDS} == set(EXIT_CODES)
    for column in ("codes", "java"):
        listed = [name for each in KINDS for name in getattr(each, column).split()]
        assert sorted(listed) == sorted(set(listed))
        assert getattr(kind, column)


def test_an_error_that_is_not_known_states_what_failed() -> None:
    error = from_kafka_error(KafkaError(KafkaError.UNKNOWN), KafkaSettings(), "listing topics")
    assert type(error) is errors.KafkaRefusedError
    assert isinstance(error, HeadwaterError)
    assert error.message == "listing topics: Unknown broker error"
    assert (error.exit_code, error.attributes) == (4, {"code": -1, "name": "UNKNOWN"})
