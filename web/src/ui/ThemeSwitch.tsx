import { type ReactNode, useState } from "react";
import { Icon, type IconName } from "./Icon.tsx";

type Theme = "system" | "light" | "dark";
const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const ICONS: Record<Theme, IconName> = { system: "system", light: "sun", dark: "moon" };
const STORED = "headwater.theme";

function apply(theme: Theme): void {
  const root = document.documentElement;
  if (theme === "system") delete root.dataset["theme"];
  else root.dataset["theme"] = theme;
  try {
    if (theme === "system") localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, theme);
  } catch {
    // It is kept until the page is closed.
  }
}

/** Switches between the theme of the system, light and dark. */
export function ThemeSwitch(): ReactNode {
  const [theme, setTheme] = useState<Theme>(() => (document.documentElement.dataset["theme"] as Theme | undefined) ?? "system");
  const change = (): void => {
    apply(NEXT[theme]);
    setTheme(NEXT[theme]);
  };
  return (
    <button type="button" className="theme" onClick={change} aria-label={`Colours: ${theme}. Change to ${NEXT[theme]}`} title={`Colours: ${theme}`}>
      <Icon name={ICONS[theme]} />
    </button>
  );
}
