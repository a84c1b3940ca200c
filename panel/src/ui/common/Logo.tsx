// The mark: a line that turns back to its station.

export function Logo() {
  return (
    <svg className="logo" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <path d="M26 9.5H12.5a6.5 6.5 0 0 0 0 13H19" />
      <circle cx="22" cy="22.5" r="4" />
    </svg>
  );
}
