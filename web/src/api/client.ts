/** One way to ask the service. The page reads; it never writes. */

const BASE = "/api/v1";
const KEY = "headwater.key";
const SECONDS = 30;

/** An answer other than success, or none. `status` 0: nobody answered. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint: string | null = null,
  ) {
    super(message);
  }
}

export interface Answer<T> {
  data: T;
  /** The same tag is the same content. */
  tag: string | null;
}

let remembered: string | null = null;

export function apiKey(): string | null {
  try {
    return sessionStorage.getItem(KEY) ?? remembered;
  } catch {
    return remembered;
  }
}

/** Kept for this tab only; the key is sent to the service and nowhere else. */
export function keepApiKey(key: string | null): void {
  remembered = key;
  try {
    if (key === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, key);
  } catch {
    // Without storage it holds until the page is left.
  }
}

export async function ask<T>(path: string, signal?: AbortSignal): Promise<Answer<T>> {
  const key = apiKey();
  const bounded = AbortSignal.timeout(SECONDS * 1000);
  let response: Response;
  try {
    response = await fetch(BASE + path, {
      // Asks each time, and is answered 304 from the browser's cache when nothing has changed.
      cache: "no-cache",
      headers: key ? { Authorization: `Bearer ${key}` } : {},
      signal: signal ? AbortSignal.any([signal, bounded]) : bounded,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    const late = bounded.aborted;
    throw new Problem(0, late ? `No answer within ${SECONDS} seconds.` : "The service does not answer.");
  }
  if (!response.ok) throw await problemOf(response);
  try {
    return { data: (await response.json()) as T, tag: response.headers.get("etag") };
  } catch {
    throw new Problem(response.status, "The answer can't be read.");
  }
}

async function problemOf(response: Response): Promise<Problem> {
  let message = `HTTP ${response.status}`;
  let hint: string | null = null;
  try {
    const body = (await response.json()) as { message?: unknown; errors?: unknown[] };
    if (typeof body.message === "string") message = body.message;
    // Fields, or what can be done about it.
    const told = body.errors?.[0];
    if (typeof told === "string" && told !== message) hint = told;
  } catch {
    // Not from the service itself: a proxy, for example.
  }
  return new Problem(response.status, message, hint);
}
