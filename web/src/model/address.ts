/** The identity of a record, `visits/0@17`. Offsets stay text: they may exceed 2^53. */
export interface Address {
  topic: string;
  partition: string;
  offset: string;
}

// Kafka's rule for topic names, as in the service.
const FORMAT = /^([a-zA-Z0-9._-]{1,249})\/([0-9]{1,10})@([0-9]{1,19})$/;
const MAX_PARTITION = 2n ** 31n - 1n;
const MAX_OFFSET = 2n ** 63n - 1n;

export function parseAddress(text: string): Address | null {
  const match = FORMAT.exec(text.trim());
  if (!match) return null;
  const [, topic = "", partition = "", offset = ""] = match;
  if (topic === "." || topic === "..") return null;
  if (BigInt(partition) > MAX_PARTITION || BigInt(offset) > MAX_OFFSET) return null;
  return { topic, partition: String(BigInt(partition)), offset: String(BigInt(offset)) };
}

export function addressText(at: { topic: string; partition: number | string; offset: number | string }): string {
  return `${at.topic}/${at.partition}@${at.offset}`;
}
