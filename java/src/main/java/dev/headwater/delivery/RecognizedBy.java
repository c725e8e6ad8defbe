package dev.headwater.delivery;

/** What a record of an interrupted batch is recognized by, besides its parents and ordinal. */
public enum RecognizedBy {
  /** Nothing: no other record has the same parents and ordinal. */
  PARENTS,
  /** Key, value and headers. */
  CONTENT,
  /** Key, value, headers and the partition, which the job has chosen. */
  CONTENT_AND_PARTITION;

  boolean withContent() {
    return this != PARENTS;
  }

  boolean withPartition() {
    return this == CONTENT_AND_PARTITION;
  }
}
