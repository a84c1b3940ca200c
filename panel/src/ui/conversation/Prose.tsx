// Text of the agent as React elements: paragraphs, lists, headings, code, bold. Never as HTML.

import { Fragment, memo, useState, type ReactNode } from "react";

import { inBytes } from "../../client/words";

/** Characters shown of a longer text until it is asked for. */
const SHOWN = 20_000;

export const Prose = memo(function Prose({ text }: { text: string }) {
  const [whole, setWhole] = useState(false);
  const cut = text.length > SHOWN && !whole;
  return (
    <div className="prose">
      {blocks(cut ? `${text.slice(0, SHOWN)}…` : text)}
      {cut && (
        <button type="button" className="link" onClick={() => setWhole(true)}>
          Show all, {inBytes(text.length)}
        </button>
      )}
    </div>
  );
});

function blocks(text: string): ReactNode[] {
  const result: ReactNode[] = [];
  let list: { ordered: boolean; items: string[] } | null = null;
  let paragraph: string[] = [];

  const flush = () => {
    if (paragraph.length) {
      result.push(<p key={result.length} dir="auto">{lines(paragraph)}</p>);
      paragraph = [];
    }
    if (list) {
      const items = list.items.map((item, index) => <li key={index} dir="auto">{inline(item)}</li>);
      result.push(
        list.ordered ? <ol key={result.length}>{items}</ol> : <ul key={result.length}>{items}</ul>,
      );
      list = null;
    }
  };

  const source = text.split("\n");
  for (let index = 0; index < source.length; index++) {
    const line = source[index] ?? "";
    if (/^\s*```/.test(line)) {
      flush();
      const code: string[] = [];
      for (index++; index < source.length && !/^\s*```/.test(source[index] ?? ""); index++) {
        code.push(source[index] ?? "");
      }
      result.push(
        <pre key={result.length} tabIndex={0}>
          <code>{code.join("\n")}</code>
        </pre>,
      );
      continue;
    }
    const heading = /^#{1,6}\s+(.*)$/.exec(line);
    const bullet = /^\s*(?:[-*•]|(\d+)[.)])\s+(.*)$/.exec(line);
    if (heading) {
      flush();
      result.push(
        <p key={result.length} className="prose-heading" dir="auto">
          {inline(heading[1] ?? "")}
        </p>,
      );
    } else if (bullet) {
      const ordered = bullet[1] !== undefined;
      if (paragraph.length || (list && list.ordered !== ordered)) flush();
      list ??= { ordered, items: [] };
      list.items.push(bullet[2] ?? "");
    } else if (line.trim() === "") {
      flush();
    } else {
      if (list) flush();
      paragraph.push(line);
    }
  }
  flush();
  return result;
}

function lines(paragraph: string[]): ReactNode[] {
  return paragraph.map((line, index) => (
    <Fragment key={index}>
      {index > 0 && <br />}
      {inline(line)}
    </Fragment>
  ));
}

/** Code and bold within one line. */
export function inline(text: string): ReactNode[] {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((piece, index) => {
    if (piece.length > 2 && piece.startsWith("`") && piece.endsWith("`")) {
      return <code key={index}>{piece.slice(1, -1)}</code>;
    }
    if (piece.length > 4 && piece.startsWith("**") && piece.endsWith("**")) {
      return <strong key={index}>{piece.slice(2, -2)}</strong>;
    }
    return piece;
  });
}
