// Short forms of what a person wrote, for names and labels.

/** The first line of a text, cut at a word to fit a name. */
export function firstWords(text: string, length = 60): string {
  const line = text.trim().split("\n", 1)[0]?.trim() ?? "";
  const cut = line.length > length ? line.slice(0, length).replace(/\s+\S*$/, "") : line;
  return cut.length < text.trim().length ? `${cut}…` : cut;
}

/** `1 turn`, `3 turns`: for nouns that take an s. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
