// Short forms of what a person wrote, for names and labels.

/** The first line of a text, cut at a word to fit a name, without the marks of code in it. */
export function firstWords(text: string, length = 60): string {
  const plain = text.trim().replace(/`([^`\n]+)`/g, "$1");
  const line = plain.split("\n", 1)[0]?.trim() ?? "";
  const cut = line.length > length ? line.slice(0, length).replace(/\s+\S*$/, "") : line;
  return cut.length < plain.length ? `${cut}…` : cut;
}

/** Those that stand more than once: names that have to be told apart. */
export function repeated(names: Iterable<string>): ReadonlySet<string> {
  const seen = new Set<string>();
  const again = new Set<string>();
  for (const name of names) (seen.has(name) ? again : seen).add(name);
  return again;
}

/** `1 turn`, `3 turns`: for nouns that take an s. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** A size of text for a person: `840 characters`, `97 KB`. */
export function inBytes(characters: number): string {
  if (characters < 1_000) return counted(characters, "character");
  if (characters < 1_000_000) return `${Math.round(characters / 1_000)} KB`;
  return `${(characters / 1_000_000).toFixed(1)} MB`;
}

/** A file's size for a person: `10 bytes`, `97 KB`, `20 MB`. */
export function fileSize(bytes: number): string {
  if (bytes < 1_000) return counted(bytes, "byte");
  if (bytes < 1_000_000) return `${Math.round(bytes / 1_000)} KB`;
  return `${Number((bytes / 1_000_000).toFixed(1))} MB`;
}

/** `buildAttributeName` as words. */
export function words(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/[_-]+/g, " ")
    .toLowerCase();
}
