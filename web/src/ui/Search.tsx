/** Search by part of a name, or by the address of a record. `/` focuses it. */
import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import type { SearchResult, SearchResults } from "../api/types.ts";
import { useResource } from "../api/useResource.ts";
import { addressText, parseAddress } from "../model/address.ts";
import { to } from "../model/route.ts";
import { Icon } from "./Icon.tsx";
import { Name } from "./Name.tsx";
import { MessageText } from "./MessageText.tsx";
import { go } from "./router.tsx";

const DEBOUNCE = 150;

interface Choice {
  key: string;
  address: string;
  icon: "record" | "job" | "dataset" | "graph";
  name: string;
  about: string;
}

const isField = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

function choicesOf(text: string, results: readonly SearchResult[]): Choice[] {
  const record = parseAddress(text);
  const found: Choice[] = record
    ? [{ key: "record", address: to.record(record), icon: "record", name: addressText(record), about: "record" }]
    : [];
  for (const result of results) {
    const job = result.type === "JOB";
    found.push({
      key: result.nodeId,
      address: job ? to.job(result.namespace, result.name) : to.dataset(result.namespace, result.name),
      icon: job ? "job" : "dataset",
      name: result.name,
      about: `${job ? "job" : "dataset"} in ${result.namespace}`,
    });
  }
  return found;
}

export function Search(): ReactNode {
  const [text, setText] = useState("");
  const [settled, setSettled] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const list = useId();

  useEffect(() => {
    const timer = setTimeout(() => setSettled(text.trim()), DEBOUNCE);
    return () => clearTimeout(timer);
  }, [text]);

  useEffect(() => {
    const slash = (event: globalThis.KeyboardEvent): void => {
      if (event.key !== "/" || event.metaKey || event.ctrlKey || event.altKey || isField(event.target)) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    document.addEventListener("keydown", slash);
    return () => document.removeEventListener("keydown", slash);
  }, []);

  const resource = useResource<SearchResults>(settled && open ? `/search?q=${encodeURIComponent(settled)}&limit=12` : null, 0);
  const choices = choicesOf(settled, resource.state === "ready" ? resource.data.results : []);
  const shown = open && settled !== "";
  const chosen = choices[Math.min(at, choices.length - 1)];

  const leave = (): void => {
    setOpen(false);
    input.current?.blur();
  };
  const choose = (choice: Choice | undefined): void => {
    if (!choice) return;
    setText("");
    setSettled("");
    leave();
    go(choice.address);
  };
  const keys = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setAt((now) => Math.min(now + 1, Math.max(choices.length - 1, 0)));
    else if (event.key === "ArrowUp") setAt((now) => Math.max(now - 1, 0));
    else if (event.key === "Escape") leave();
    else if (event.key === "Enter") {
      const record = parseAddress(text);
      // An address needs no search; a name needs the current results.
      if (record) choose(choicesOf(text, [])[0]);
      else if (settled === text.trim()) choose(chosen);
    } else return;
    event.preventDefault();
  };

  return (
    <search className="search">
      <Icon name="search" />
      <input
        ref={input}
        type="search"
        role="combobox"
        aria-label="Search jobs and datasets, or go to a record"
        aria-expanded={shown}
        aria-controls={list}
        aria-autocomplete="list"
        aria-activedescendant={shown && chosen ? `${list}-${choices.indexOf(chosen)}` : undefined}
        placeholder="Name, or topic/0@42"
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setOpen(true);
          setAt(0);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={keys}
      />
      <kbd aria-hidden="true">/</kbd>
      <div className="results" hidden={!shown}>
        <ul id={list} role="listbox" aria-label="Results">
          {shown &&
            choices.map((choice, number) => (
              // The input keeps the focus and handles the keys, as in any combobox.
              <li
                key={choice.key}
                id={`${list}-${number}`}
                role="option"
                aria-selected={choice === chosen}
                onPointerDown={(event) => event.preventDefault()}
                onClick={() => choose(choice)}
                onPointerMove={() => setAt(number)}
              >
                <Icon name={choice.icon} />
                <Name text={choice.name} cut />
                <Name text={choice.about} cut className="quiet" />
              </li>
            ))}
        </ul>
        {shown && !choices.length && (
          <p className="quiet">{resource.state === "problem" ? <MessageText text={resource.problem.message} /> : resource.state === "ready" ? "No results." : "Searching…"}</p>
        )}
      </div>
    </search>
  );
}
