import type { ReactNode } from "react";

const SHAPES = {
  job: "M4 6.5 8 4l4 2.5v5L8 14l-4-2.5zM8 9v5M4 6.5 8 9l4-2.5",
  dataset: "M3 5c0-1.1 2.2-2 5-2s5 .9 5 2-2.2 2-5 2-5-.9-5-2zm0 0v6c0 1.1 2.2 2 5 2s5-.9 5-2V5M3 8c0 1.1 2.2 2 5 2s5-.9 5-2",
  record: "M4 2.5h5l3 3v8H4zM9 2.5v3h3M6 8.5h4M6 11h4",
  run: "M5 3.5v9l7-4.5z",
  graph: "M2.5 4h3v3h-3zM10.5 2.5h3v3h-3zM10.5 10.5h3v3h-3zM5.5 5.5h2.5v6.5h2.5M8 5.5V4h2.5",
  dashboard: "M2.5 13.5v-5h3v5zm4-10h3v10h-3zm4 3h3v7h-3z",
  alert: "M8 2.5 14 13H2zM8 6.5v3M8 11.2v.3",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.3 10.3 14 14",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1.5v1.5M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
  system: "M2.5 3.5h11v7h-11zM6 13.5h4M8 10.5v3",
  close: "M4 4l8 8M12 4l-8 8",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  key: "M5.5 5.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8.5 8.5h6M12 8.5v2.5M14.5 8.5v2",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2 1.3",
} as const;

export type IconName = keyof typeof SHAPES;

/** Always used with text, so it is hidden from screen readers. */
export function Icon({ name }: { name: IconName }): ReactNode {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={SHAPES[name]} />
    </svg>
  );
}
