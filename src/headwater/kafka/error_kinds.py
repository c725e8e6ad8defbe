"""Which Headwater error an error of Kafka is, by the client's code and by the name in Java.

An error that is not listed is a `KafkaRefusedError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError

from headwater.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerUnavailableError,
    HeadwaterError,
    InputError,
    KafkaRefusedError,
    NotEnoughReplicasError,
    PolicyViolationError,
    ProducerFencedError,
    ProducerStateError,
    QuotaExceededError,
    RecordRejectedError,
    RecordTooLargeError,
    ReplicationFactorError,
    TopicNotFoundError,
    UnsupportedVersionError,
)


@dataclass(frozen=True)
class ErrorKind:
    """A type of error with its hint.

    Attributes:
        codes: names of `confluent_kafka.KafkaError`.
        java: names of the classes in `org.apache.kafka.common.errors`, without `Exception`.
        prefix: the start of the message, with the brokers as `{}`.
    """

    error: type[HeadwaterError]
    hint: str | None
    codes: str = ""
    java: str = ""
    prefix: str = ""


UNANSWERED = ErrorKind(
    BrokerUnavailableError,
    "start the local broker with `headwater up kafka`, or set KAFKA_BOOTSTRAP_SERVERS; the timeout "
    "is HEADWATER_KAFKA__TIMEOUT_SECONDS",
    "_TRANSPORT _ALL_BROKERS_DOWN _TIMED_OUT _RESOLVE REQUEST_TIMED_OUT BROKER_NOT_AVAILABLE "
    "NETWORK_EXCEPTION",
    "Timeout BrokerNotAvailable Network Disconnect",
    prefix="Kafka at {} did not respond: ",
)
NOT_READY = ErrorKind(
    BrokerUnavailableError,
    "try again: a leader or a coordinator is being elected; `headwater kafka topics --describe` "
    "shows partitions without a leader",
    "LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION REPLICA_NOT_AVAILABLE STALE_CTRL_EPOCH "
    "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR NOT_CONTROLLER "
    "CONCURRENT_TRANSACTIONS TRANSACTION_COORDINATOR_FENCED OPERATION_NOT_ATTEMPTED "
    "KAFKA_STORAGE_ERROR REASSIGNMENT_IN_PROGRESS REBALANCE_IN_PROGRESS LISTENER_NOT_FOUND "
    "FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH FENCED_LEADER_EPOCH "
    "UNKNOWN_LEADER_EPOCH STALE_BROKER_EPOCH OFFSET_NOT_AVAILABLE PREFERRED_LEADER_NOT_AVAILABLE "
    "ELIGIBLE_LEADERS_NOT_AVAILABLE UNSTABLE_OFFSET_COMMIT REBOOTSTRAP_REQUIRED _FAIL "
    "_MSG_TIMED_OUT _TIMED_OUT_QUEUE _QUEUE_FULL _WAIT_COORD _WAIT_CACHE _IN_PROGRESS "
    "_PREV_IN_PROGRESS _RETRY _UNKNOWN_BROKER _NODE_UPDATE _DESTROY_BROKER",
    "LeaderNotAvailable NotLeaderOrFollower NotLeaderForPartition ReplicaNotAvailable "
    "ControllerMoved CoordinatorLoadInProgress CoordinatorNotAvailable NotCoordinator "
    "NotController ConcurrentTransactions TransactionCoordinatorFenced OperationNotAttempted "
    "KafkaStorage ReassignmentInProgress RebalanceInProgress ListenerNotFound "
    "FetchSessionIdNotFound InvalidFetchSessionEpoch FetchSessionTopicId FencedLeaderEpoch "
    "UnknownLeaderEpoch StaleBrokerEpoch OffsetNotAvailable PreferredLeaderNotAvailable "
    "EligibleLeadersNotAvailable UnstableOffsetCommit AuthorizerNotReady NewLeaderElected",
    prefix="Kafka at {} is not ready: ",
)
AUTHENTICATION = ErrorKind(
    AuthenticationError,
    "check HEADWATER_KAFKA__SECURITY_PROTOCOL, HEADWATER_KAFKA__SASL_MECHANISM, the user with its "
    "password and HEADWATER_KAFKA__CA_FILE, or the same in HEADWATER_KAFKA__CLIENT (librdkafka's "
    "names) and HEADWATER_SPARK__KAFKA_OPTIONS (Java's names)",
    "_AUTHENTICATION _SSL SASL_AUTHENTICATION_FAILED UNSUPPORTED_SASL_MECHANISM "
    "ILLEGAL_SASL_STATE SECURITY_DISABLED DELEGATION_TOKEN_AUTH_DISABLED "
    "DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH "
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE "
    "UNACCEPTABLE_CREDENTIAL PRINCIPAL_DESERIALIZATION_FAILURE",
    "Authentication SaslAuthentication SslAuthentication UnsupportedSaslMechanism "
    "IllegalSaslState SecurityDisabled DelegationTokenDisabled DelegationTokenNotFound "
    "DelegationTokenOwnerMismatch UnsupportedByAuthentication DelegationTokenExpired "
    "InvalidPrincipalType UnacceptableCredential PrincipalDeserialization",
    prefix="Kafka at {} does not accept the client: ",
)
AUTHORIZATION = ErrorKind(
    AuthorizationError,
    None,  # made from the operation and the resource
    "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED "
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    "TopicAuthorization GroupAuthorization ClusterAuthorization TransactionalIdAuthorization "
    "DelegationTokenAuthorization Authorization",
)
KINDS = (
    UNANSWERED,
    NOT_READY,
    AUTHENTICATION,
    AUTHORIZATION,
    ErrorKind(
        NotEnoughReplicasError,
        "start the missing brokers, or lower min.insync.replicas of the topic: `headwater kafka "
        "configs --alter --topic NAME --add-config min.insync.replicas=1`",
        "NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND _ISR_INSUFF",
        "NotEnoughReplicas NotEnoughReplicasAfterAppend",
    ),
    ErrorKind(
        QuotaExceededError,
        "send fewer requests, or raise the quota of the principal or the client id: `headwater "
        "kafka configs --describe --entity-type users` shows quotas",
        "THROTTLING_QUOTA_EXCEEDED",
        "ThrottlingQuotaExceeded",
    ),
    ErrorKind(
        PolicyViolationError,
        "the policies and limits of the cluster are set by its administrator, such as "
        "create.topic.policy.class.name, delete.topic.enable, max.transaction.timeout.ms and "
        "group.max.size",
        "POLICY_VIOLATION TOPIC_DELETION_DISABLED GROUP_MAX_SIZE_REACHED "
        "INVALID_TRANSACTION_TIMEOUT OFFSET_METADATA_TOO_LARGE TELEMETRY_TOO_LARGE "
        "SHARE_SESSION_LIMIT_REACHED",
        "PolicyViolation TopicDeletionDisabled GroupMaxSizeReached InvalidTxnTimeout "
        "OffsetMetadataTooLarge TelemetryTooLarge",
    ),
    ErrorKind(
        ReplicationFactorError,
        "use at most as many replicas as there are brokers; the local cluster has one",
        "INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT",
        "InvalidReplicationFactor InvalidReplicaAssignment",
    ),
    ErrorKind(
        RecordTooLargeError,
        "raise max.message.bytes of the topic, and message.max.bytes in HEADWATER_KAFKA__CLIENT; "
        "jobs send values above HEADWATER_JOBS__MAX_VALUE_BYTES to the dead letter topic, and use "
        "max.request.size of HEADWATER_SPARK__KAFKA_OPTIONS",
        "MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_MSG_SIZE",
        "RecordTooLarge RecordBatchTooLarge InvalidFetchSize",
    ),
    ErrorKind(
        RecordRejectedError,
        "check the record against the configuration of the topic: a compacted topic requires a "
        "key, and message.timestamp.before.max.ms and after.max.ms limit timestamps",
        "INVALID_RECORD INVALID_TIMESTAMP INVALID_MSG UNSUPPORTED_COMPRESSION_TYPE "
        "_INVALID_DIFFERENT_RECORD",
        "InvalidRecord InvalidTimestamp CorruptRecord UnsupportedCompressionType",
    ),
    ErrorKind(
        ProducerFencedError,
        "stop other jobs with the same checkpoint or transactional id; a transaction that took "
        "longer than transaction.timeout.ms is aborted in the same way, and can be retried",
        "_FENCED INVALID_PRODUCER_EPOCH PRODUCER_FENCED FENCED_INSTANCE_ID",
        "ProducerFenced InvalidProducerEpoch FencedInstanceId",
    ),
    ErrorKind(
        ProducerStateError,
        "a new producer can continue; check what was written before records are sent again",
        "OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER INVALID_PRODUCER_ID_MAPPING "
        "UNKNOWN_PRODUCER_ID INVALID_TXN_STATE TRANSACTION_ABORTABLE _FATAL _GAPLESS_GUARANTEE "
        "_INCONSISTENT _PURGE_QUEUE _PURGE_INFLIGHT",
        "OutOfOrderSequence DuplicateSequence InvalidPidMapping UnknownProducerId InvalidTxnState "
        "TransactionAbortable TransactionAborted TransactionalIdNotFound",
    ),
    ErrorKind(
        TopicNotFoundError,
        "`headwater topics list` lists all topics",
        "UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION UNKNOWN_TOPIC_ID "
        "INCONSISTENT_TOPIC_ID",
        "UnknownTopicOrPartition UnknownTopicId InconsistentTopicId",
    ),
    ErrorKind(
        UnsupportedVersionError,
        "use a newer broker: `headwater kafka broker-api-versions` shows what it supports",
        "UNSUPPORTED_VERSION UNSUPPORTED_FOR_MESSAGE_FORMAT _UNSUPPORTED_FEATURE _NOT_IMPLEMENTED",
        "UnsupportedVersion UnsupportedForMessageFormat",
    ),
    ErrorKind(
        InputError,
        "a topic name has at most 249 letters, digits, `.`, `_` and `-`",
        "TOPIC_EXCEPTION",
        "InvalidTopic",
    ),
    ErrorKind(
        InputError,
        None,
        "OFFSET_OUT_OF_RANGE TOPIC_ALREADY_EXISTS INVALID_PARTITIONS "
        "INVALID_CONFIG INVALID_REQUEST INVALID_REQUIRED_ACKS INVALID_GROUP_ID "
        "INVALID_SESSION_TIMEOUT INVALID_COMMIT_OFFSET_SIZE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND "
        "GROUP_SUBSCRIBED_TO_TOPIC INCONSISTENT_GROUP_PROTOCOL RESOURCE_NOT_FOUND "
        "DUPLICATE_RESOURCE INVALID_REGULAR_EXPRESSION _INVALID_ARG _INVALID_TYPE "
        "_UNKNOWN_PROTOCOL _UNKNOWN_GROUP _AUTO_OFFSET_RESET _NO_OFFSET _NOT_CONFIGURED _FS",
        "OffsetOutOfRange PositionOutOfRange TopicExists InvalidPartitions "
        "InvalidConfiguration InvalidRequest InvalidRequiredAcks InvalidGroupId "
        "InvalidSessionTimeout InvalidCommitOffsetSize GroupNotEmpty GroupIdNotFound "
        "GroupSubscribedToTopic InconsistentGroupProtocol ResourceNotFound DuplicateResource "
        "InvalidOffset",
    ),
)
OTHER = ErrorKind(
    KafkaRefusedError, "`headwater --debug …` shows the log lines of the Kafka client"
)

# Names that an older client does not know are left out.
_BY_CODE: Mapping[int, ErrorKind] = {
    getattr(KafkaError, name): kind
    for kind in KINDS
    for name in kind.codes.split()
    if hasattr(KafkaError, name)
}
_BY_JAVA_NAME: Mapping[str, ErrorKind] = {
    name: kind for kind in KINDS for name in kind.java.split()
}
UNREACHABLE = frozenset(code for code, kind in _BY_CODE.items() if kind is UNANSWERED)
# Not an error for a reader that is assigned to partitions: the client requires a group id, but the
# reader does not join the group and commits nothing.
UNUSED_GROUP = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})
UNKNOWN_TOPIC = frozenset(
    code for code, kind in _BY_CODE.items() if kind.error is TopicNotFoundError
)


def kind_of_code(code: int) -> ErrorKind:
    """The kind of a code of the Python client."""
    return _BY_CODE.get(code, OTHER)


def kind_of_java(name: str) -> ErrorKind | None:
    """The kind of a Java class, by its simple name; None if it is not known."""
    return _BY_JAVA_NAME.get(name.removesuffix("Exception"))
