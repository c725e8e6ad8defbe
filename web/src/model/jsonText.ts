/** JSON as it was sent: parsing it would change large numbers, `1.0` and repeated keys. */

// A string, or a character that opens, closes or separates values, or any other run of characters.
const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** The texts of the elements of the first array that is the value of `key` in an object. */
export function elementsOf(text: string, key: string): string[] {
  const elements: string[] = [];
  let depth = 0;
  let start = -1;
  let previous = "";
  let before = "";
  let inside = 0;
  for (const match of text.matchAll(TOKENS)) {
    const token = match[0];
    const opens = token === "{" || token === "[";
    const closes = token === "}" || token === "]";
    if (!inside && token === "[" && depth === 1 && previous === ":" && before === JSON.stringify(key)) inside = depth + 1;
    else if (inside && ((token === "," && depth === inside) || (closes && depth === inside))) {
      if (start >= 0) elements.push(text.slice(start, match.index).trim());
      start = -1;
      if (closes) return elements;
    } else if (inside && start < 0) start = match.index;
    if (opens) depth++;
    if (closes) depth--;
    [before, previous] = [previous, token];
  }
  return elements;
}

/** The same JSON with a line for each member; its tokens are unchanged. */
export function indented(text: string): string {
  const parts: string[] = [];
  let depth = 0;
  let previous = "";
  const line = (): string => `\n${"  ".repeat(depth)}`;
  for (const [token] of text.matchAll(TOKENS)) {
    const closes = token === "}" || token === "]";
    if (closes) depth--;
    if (previous === "{" || previous === "[" ? !closes : closes || previous === ",") parts.push(line());
    parts.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth++;
    previous = token;
  }
  return parts.join("");
}
