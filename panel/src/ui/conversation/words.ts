// Short forms of prompts, for labels.

const LENGTH = 60;

/** The first line of a prompt, cut at a word when it is long. */
export function short(prompt: string): string {
  const line = prompt.trim().split("\n", 1)[0]?.trim() ?? "";
  const cut = line.length > LENGTH ? line.slice(0, LENGTH).replace(/\s+\S*$/, "") : line;
  return cut.length < prompt.trim().length ? `${cut}…` : cut;
}
