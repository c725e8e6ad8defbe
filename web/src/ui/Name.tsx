import type { ReactNode } from "react";
import { visible } from "../model/names.ts";

interface NameProps {
  text: string;
  /** One line, cut with an ellipsis; the full name is in the title. */
  cut?: boolean;
  className?: string;
  /** Keeps line breaks. */
  lines?: boolean;
}

/** A name from a producer: shown as text, isolated from the text direction around it. */
export function Name({ text, cut = false, className = "", lines = false }: NameProps): ReactNode {
  const shown = visible(text, lines);
  return (
    <bdi className={`name ${cut ? "cut" : ""} ${lines ? "lines" : ""} ${className}`} title={cut ? shown : undefined}>
      {shown}
    </bdi>
  );
}
