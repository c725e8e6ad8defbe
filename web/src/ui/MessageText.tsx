import type { ReactNode } from "react";
import { visible } from "../model/names.ts";

/** A message of the service: text in backticks is shown as code. */
export function MessageText({ text }: { text: string }): ReactNode {
  return visible(text)
    .split("`")
    .map((part, at) => (at % 2 ? <code key={at}>{part}</code> : <span key={at}>{part}</span>));
}
