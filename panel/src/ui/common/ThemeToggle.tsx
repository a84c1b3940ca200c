// The button between light and dark.

import { MoonIcon, SunIcon } from "../icons";
import { useTheme } from "../theme";

export function ThemeToggle() {
  const [theme, toggle] = useTheme();
  const label = theme === "dark" ? "Switch to light" : "Switch to dark";
  return (
    <button type="button" className="button icon-only quiet" onClick={toggle} title={label} aria-label={label}>
      {theme === "dark" ? <SunIcon /> : <MoonIcon />}
    </button>
  );
}
