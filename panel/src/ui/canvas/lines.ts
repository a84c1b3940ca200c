// Which line an operator belongs to: its colour and its glyph, told from its type, so that types which
// the server does not know have one too.

export type LineName =
  | "source"
  | "shape"
  | "search"
  | "join"
  | "aggregate"
  | "chart"
  | "code"
  | "other";

const RULES: readonly [LineName, RegExp][] = [
  ["code", /UDF|Python|Lambda|Script/],
  ["source", /Scan|Source|Input|Fetch|Reader|Load/],
  ["join", /Join|Union|Intersect|Difference|Product/],
  ["aggregate", /Aggregate|Count|Group|Sum/],
  ["chart", /Chart|Plot|Histogram|Cloud|Map|Visual/],
  ["search", /Search|Regex|Keyword|Dictionary|Match/],
  ["shape", /Filter|Projection|Cast|Sort|Limit|Distinct|Split|Unnest|Sample/],
];

export function lineOf(operatorType: string): LineName {
  return RULES.find(([, rule]) => rule.test(operatorType))?.[0] ?? "other";
}
