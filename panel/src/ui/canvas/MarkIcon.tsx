// The sign of a mark, so that it is told by more than its colour.

import type { Mark } from "../../client/preview";
import { MinusIcon, PencilIcon, PlusIcon } from "../icons";

export function MarkIcon({ mark }: { mark: Mark }) {
  if (mark === "goes") return <MinusIcon />;
  return mark === "returns" ? <PlusIcon /> : <PencilIcon />;
}
