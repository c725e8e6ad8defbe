/** Names are whatever their producer sent; they are shown as text, with nothing hidden in it. */

// Controls, and the marks that change the direction of what follows.
// oxlint-disable-next-line no-control-regex
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** The text with every hidden character written out, such as `\u202e`. */
export function visible(text: string, lines = false): string {
  return text.replace(HIDDEN, (mark) =>
    lines && (mark === "\n" || mark === "\t")
      ? mark
      : `\\u${(mark.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}

/** The middle left out: both ends of a name tell things apart. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) * 0.6);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}

/** The name of a node such as `job:NAMESPACE:NAME`; both may hold colons, so what is known decides. */
export function nameOfNode(id: string, namespaces: readonly string[]): string {
  const rest = id.slice(id.indexOf(":") + 1);
  const known = namespaces.filter((each) => rest.startsWith(`${each}:`) && rest.length > each.length + 1);
  const longest = known.reduce((best, each) => (each.length > best.length ? each : best), "");
  return longest ? rest.slice(longest.length + 1) : rest.slice(rest.lastIndexOf(":") + 1);
}

/** Whether a name is set smaller, so that what is below it stays in sight. */
export function isLong(text: string): boolean {
  return text.length > 120;
}

/** `job:NAMESPACE:NAME`, as the service names nodes. */
export function nodeId(kind: "job" | "dataset", namespace: string, name: string): string {
  return `${kind}:${namespace}:${name}`;
}

/** JSON or text for people: objects are indented, what is no JSON stays as it is. */
export function pretty(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}
