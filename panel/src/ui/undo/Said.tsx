// A sentence of a report: what stands between backticks is a name of a tool's.

export function Said({ text }: { text: string | null }) {
  if (text === null) return null;
  return text
    .split("`")
    .map((piece, index) => (index % 2 === 1 ? <code key={index}>{piece}</code> : piece));
}
