// The first stops of the keyboard: past what every page begins with.

export function SkipLinks({ links }: { links: readonly [target: string, words: string][] }) {
  return (
    <nav className="skip-links" aria-label="Skip">
      {links.map(([target, words]) => (
        <a
          key={words}
          href={target}
          onClick={(event) => {
            // The address stays the session's.
            event.preventDefault();
            const element = document.querySelector<HTMLElement>(target);
            element?.focus();
            element?.scrollIntoView({ block: "nearest" });
          }}
        >
          {words}
        </a>
      ))}
    </nav>
  );
}
