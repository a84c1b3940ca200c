// Times in words.

const RELATIVE = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const TO_SECOND = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });

/** How long ago, for times within a month; a date for older ones. */
export function ago(time: Date, now: Date): string {
  const seconds = Math.round((time.getTime() - now.getTime()) / 1000);
  const age = Math.abs(seconds);
  if (age < 45) return "just now";
  if (age < 3_600) return RELATIVE.format(Math.round(seconds / 60), "minute");
  if (age < 86_400) return RELATIVE.format(Math.round(seconds / 3_600), "hour");
  if (age < 30 * 86_400) return RELATIVE.format(Math.round(seconds / 86_400), "day");
  return DAY.format(time);
}

/** The time of day, to the second. */
export function toSecond(milliseconds: number): string {
  return TO_SECOND.format(milliseconds);
}

export function clock(milliseconds: number): string {
  return CLOCK.format(milliseconds);
}

export function full(milliseconds: number): string {
  return FULL.format(milliseconds);
}
