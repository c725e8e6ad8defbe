/** Requests to the service. The page only reads. */

const BASE = "/api/v1";
const KEY = "headwater.key";
const TIMEOUT_SECONDS = 30;

/** A failed request. `status` is 0 if there was no response. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint: string | null = null,
  ) {
    super(message);
  }
}

export interface ApiResponse<T> {
  data: T;
  /** Equal ETags mean equal content. */
  etag: string | null;
}

let keyInMemory: string | null = null;

export function apiKey(): string | null {
  try {
    return sessionStorage.getItem(KEY) ?? keyInMemory;
  } catch {
    return keyInMemory;
  }
}

/** Kept for this tab only; the key is sent to the service and nowhere else. */
export function keepApiKey(key: string | null): void {
  keyInMemory = key;
  try {
    if (key === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, key);
  } catch {
    // Without storage it is kept until the page is closed.
  }
}

export async function request<T>(path: string): Promise<ApiResponse<T>> {
  const response = await send(path);
  try {
    return { data: (await response.json()) as T, etag: response.headers.get("etag") };
  } catch {
    throw new Problem(response.status, "The response is not valid JSON.");
  }
}

/** The body as text. */
export async function requestText(path: string): Promise<string> {
  return (await send(path)).text();
}

async function send(path: string): Promise<Response> {
  const key = apiKey();
  const timeout = AbortSignal.timeout(TIMEOUT_SECONDS * 1000);
  let response: Response;
  try {
    response = await fetch(BASE + path, {
      // Revalidates each time; the browser's cache handles a 304.
      cache: "no-cache",
      headers: key ? { Authorization: `Bearer ${key}` } : {},
      signal: timeout,
    });
  } catch {
    throw new Problem(0, timeout.aborted ? `No response within ${TIMEOUT_SECONDS} seconds.` : "The service does not respond.");
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response: Response): Promise<Problem> {
  let message = `HTTP ${response.status}`;
  let hint: string | null = null;
  try {
    const body = (await response.json()) as { message?: unknown; errors?: unknown[] };
    if (typeof body.message === "string") message = body.message;
    // An invalid field, or a hint.
    const first = body.errors?.[0];
    if (typeof first === "string" && first !== message) hint = first;
  } catch {
    // Not JSON, for example from a proxy.
  }
  return new Problem(response.status, message, hint);
}
