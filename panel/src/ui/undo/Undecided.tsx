// What only a person decides, on a page that has not come as one: said where it would be decided.

import { Said } from "./Said";

export function Undecided({ why }: { why: string }) {
  return (
    <p className="note warn">
      <Said text={`${why}.`} />
    </p>
  );
}
