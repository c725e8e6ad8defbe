/** Names come from producers; they are shown as text, with hidden characters made visible. */

// Control characters, and marks that change the direction of text.
// oxlint-disable-next-line no-control-regex
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** The text with every hidden character escaped, such as `\u202e`. */
export function visible(text: string, lines = false): string {
  return text.replace(HIDDEN, (mark) =>
    lines && (mark === "\n" || mark === "\t")
      ? mark
      : `\\u${(mark.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}

/** Shortens in the middle: names often differ at either end. */
export function shortened(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const head = Math.ceil((maxLength - 1) * 0.6);
  return `${text.slice(0, head)}…${text.slice(text.length - (maxLength - 1 - head))}`;
}

/** The name of a node such as `job:NAMESPACE:NAME`; both may contain colons, so known namespaces decide. */
export function nameOfNode(id: string, namespaces: readonly string[]): string {
  const rest = id.slice(id.indexOf(":") + 1);
  const known = namespaces.filter((each) => rest.startsWith(`${each}:`) && rest.length > each.length + 1);
  const longest = known.reduce((best, each) => (each.length > best.length ? each : best), "");
  return longest ? rest.slice(longest.length + 1) : rest.slice(rest.lastIndexOf(":") + 1);
}

/** Whether a name is shown in a smaller font, so that the content below it stays visible. */
export function isLong(text: string): boolean {
  return text.length > 120;
}

/** `job:NAMESPACE:NAME`, as the service names nodes. */
export function nodeId(kind: "job" | "dataset", namespace: string, name: string): string {
  return `${kind}:${namespace}:${name}`;
}

/** Indents JSON objects; other text is returned unchanged. */
export function pretty(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}
