import type { ReactNode } from "react";
import { visible } from "../model/names.ts";

/** A sentence of the service: what stands in backticks is something to type. */
export function Words({ text }: { text: string }): ReactNode {
  return visible(text)
    .split("`")
    .map((part, at) => (at % 2 ? <code key={at}>{part}</code> : <span key={at}>{part}</span>));
}
