/** The address bar as state: links without reload, and query parameters. */
import { type AnchorHTMLAttributes, type MouseEvent, type ReactNode, useCallback, useMemo, useSyncExternalStore } from "react";
import { type Route, readPath } from "../model/route.ts";

const MOVED = "headwater:moved";

export function go(address: string, options: { replace?: boolean } = {}): void {
  if (options.replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  window.dispatchEvent(new Event(MOVED));
}

function subscribe(changed: () => void): () => void {
  window.addEventListener("popstate", changed);
  window.addEventListener(MOVED, changed);
  return () => {
    window.removeEventListener("popstate", changed);
    window.removeEventListener(MOVED, changed);
  };
}

const current = (): string => location.pathname + location.search;

export function useAddress(): { route: Route; path: string; query: URLSearchParams } {
  const address = useSyncExternalStore(subscribe, current);
  return useMemo(() => {
    const at = address.indexOf("?");
    const path = at < 0 ? address : address.slice(0, at);
    return { route: readPath(path), path, query: new URLSearchParams(at < 0 ? "" : address.slice(at)) };
  }, [address]);
}

/** Query parameters of the URL; setting one to null removes it. */
export function useQuery(): [URLSearchParams, (changes: Record<string, string | number | null>, push?: boolean) => void] {
  const { query } = useAddress();
  const change = useCallback((changes: Record<string, string | number | null>, push = false) => {
    const next = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === "") next.delete(name);
      else next.set(name, String(value));
    }
    const text = next.toString();
    go(location.pathname + (text ? `?${text}` : ""), { replace: !push });
  }, []);
  return [query, change];
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { to: string; children: ReactNode };

export function Link({ to, children, onClick, ...rest }: LinkProps): ReactNode {
  const follow = (event: MouseEvent<HTMLAnchorElement>): void => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return (
    <a {...rest} href={to} onClick={follow}>
      {children}
    </a>
  );
}
