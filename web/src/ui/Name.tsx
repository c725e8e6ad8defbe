import type { ReactNode } from "react";
import { visible } from "../model/names.ts";

interface NameProps {
  text: string;
  /** One line, cut with an ellipsis; the whole name is in the title. */
  cut?: boolean;
  className?: string;
  /** Text of several lines keeps them. */
  lines?: boolean;
}

/** A name as its producer sent it: text, isolated from the direction of what stands around it. */
export function Name({ text, cut = false, className = "", lines = false }: NameProps): ReactNode {
  const shown = visible(text, lines);
  return (
    <bdi className={`name ${cut ? "cut" : ""} ${lines ? "lines" : ""} ${className}`} title={cut ? shown : undefined}>
      {shown}
    </bdi>
  );
}
