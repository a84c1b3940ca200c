// Both values of what somebody else has changed: nothing was written over theirs.

import type { Json, RestValues } from "../../client/types";

/** Characters of a value that are shown. */
const SHOWN = 300;

export function Values({
  values,
  caption = "Changed by somebody else; nothing was written over it.",
}: {
  values: RestValues[];
  caption?: string;
}) {
  return (
    <div className="values" lang="en">
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            <th scope="col">What</th>
            <th scope="col">Now</th>
            <th scope="col">Was to be put back</th>
          </tr>
        </thead>
        <tbody>
          {values.map((leaf) => (
            <tr key={`${leaf.thing} ${leaf.path.join(".")}`}>
              <th scope="row">
                <bdi>{leaf.thing}</bdi> {leaf.path.join(" › ")}
              </th>
              <td dir="auto">{leaf.has_now ? text(leaf.now) : <em>not there</em>}</td>
              <td dir="auto">{leaf.has_goal ? text(leaf.goal) : <em>not there</em>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function text(value: Json): string {
  const plain = typeof value === "string" ? value : JSON.stringify(value);
  return plain.length > SHOWN ? `${plain.slice(0, SHOWN)}…` : plain;
}
