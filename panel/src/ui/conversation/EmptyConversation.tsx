// What the conversation shows before its first message.

const EXAMPLES = [
  "Build a sales report",
  "Add a CSV scan of sales.csv",
  "Add a Filter on amount > 100 after the CSV scan",
];

export function EmptyConversation({ onExample }: { onExample: (text: string) => void }) {
  return (
    <div className="empty-conversation">
      <h2>What should the workflow do?</h2>
      <p>
        Ask for a change and watch it happen on the canvas, step by step. You can turn back to before
        any message, and forward again.
      </p>
      <ul>
        {EXAMPLES.map((text) => (
          <li key={text}>
            <button type="button" className="example" onClick={() => onExample(text)}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
