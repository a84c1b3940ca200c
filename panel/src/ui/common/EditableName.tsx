// A name that becomes a field when it is clicked.

import { useRef, useState } from "react";

export function EditableName({
  name,
  label,
  editing,
  onEditing,
  onRename,
}: {
  name: string;
  label: string;
  editing: boolean;
  onEditing: (editing: boolean) => void;
  onRename: (name: string) => void;
}) {
  const [text, setText] = useState(name);
  // Escape closes the field, which also blurs it; that blur must not rename.
  const given = useRef(false);

  if (!editing) {
    return (
      <button
        type="button"
        className="name-button"
        title="Rename"
        aria-label={`${label}: ${name}. Rename`}
        onClick={() => {
          setText(name);
          onEditing(true);
        }}
      >
        {name}
      </button>
    );
  }
  const finish = (keep: boolean) => {
    if (given.current) return;
    given.current = true;
    onEditing(false);
    const next = text.trim();
    if (keep && next !== "" && next !== name) onRename(next);
  };
  return (
    <input
      className="name-field"
      aria-label={label}
      value={text}
      autoFocus
      onFocus={(event) => {
        given.current = false;
        setText(name);
        event.currentTarget.select();
      }}
      onChange={(event) => setText(event.currentTarget.value)}
      onBlur={() => finish(true)}
      onKeyDown={(event) => {
        if (event.key === "Enter") finish(true);
        if (event.key === "Escape") {
          event.stopPropagation();
          finish(false);
        }
      }}
    />
  );
}
