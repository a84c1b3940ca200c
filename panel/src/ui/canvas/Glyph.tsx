// The glyph on an operator's disc.

import type { ReactNode } from "react";

import { own } from "../../client/loose";
import { lineOf, type LineName } from "./lines";

const OF_LINE: Readonly<Record<LineName, ReactNode>> = {
  source: (
    <>
      <ellipse cx="10" cy="5.5" rx="5.5" ry="2.2" />
      <path d="M4.5 5.5v9c0 1.2 2.5 2.2 5.5 2.2s5.5-1 5.5-2.2v-9M4.5 10c0 1.2 2.5 2.2 5.5 2.2s5.5-1 5.5-2.2" />
    </>
  ),
  shape: <path d="M3.5 4.5h13l-5 6v5l-3 1.5v-6.5z" />,
  search: (
    <>
      <circle cx="9" cy="9" r="4.8" />
      <path d="m12.7 12.7 3.8 3.8" />
    </>
  ),
  join: (
    <>
      <circle cx="7.6" cy="10" r="4.6" />
      <circle cx="12.4" cy="10" r="4.6" />
    </>
  ),
  aggregate: <path d="M14.5 5.8V4h-9l5 6-5 6h9v-1.8" />,
  chart: <path d="M4 16.5V10M8 16.5V4M12 16.5V7.5M16 16.5v-4" />,
  code: <path d="m7 5.5-4.5 4.5L7 14.5M13 5.5l4.5 4.5-4.5 4.5" />,
  other: <path d="M10 3.2 16 6.6v6.8l-6 3.4-6-3.4V6.6zM4 6.6l6 3.4 6-3.4M10 10v6.8" />,
};

const OF_TYPE: Readonly<Record<string, ReactNode>> = {
  Projection: <path d="M3.5 4h13v12h-13zM8 4v12M12.2 4v12" />,
  Sort: <path d="M6 16.5v-13M3 6.5l3-3 3 3M14 3.5v13M11 13.5l3 3 3-3" />,
  Limit: <path d="M3.5 5h13M3.5 9.5h13M3.5 14h5M12.5 12.5l3.5 3.5M16 12.5 12.5 16" />,
  Distinct: <path d="M4 4h7.5v7.5H4zM8.5 14.2v2.3H16V9h-2.2" />,
  TypeCasting: <path d="M4 6.5V4h12v2.5M10 4v12.5M7.5 16.5h5" />,
  Union: <path d="M4.5 3.5v7a5.5 5.5 0 0 0 11 0v-7" />,
  TextInput: <path d="M3.5 4.5h13M3.5 8.2h13M3.5 11.9h13M3.5 15.6h7" />,
  LineChart: <path d="m3 14.5 4.5-5 3.5 3 6-7.5" />,
  PieChart: <path d="M10 3.5a6.5 6.5 0 1 0 6.5 6.5H10zM13 3.6A6.5 6.5 0 0 1 16.4 7H13z" />,
  Scatterplot: (
    <g fill="currentColor" stroke="none">
      <circle cx="5" cy="14" r="1.7" />
      <circle cx="9" cy="9" r="1.7" />
      <circle cx="12.5" cy="12.5" r="1.7" />
      <circle cx="15.5" cy="5.5" r="1.7" />
    </g>
  ),
  WordCloud: <path d="M6 15.5a3.5 3.5 0 0 1-.3-7 4.8 4.8 0 0 1 9.2.8 3.2 3.2 0 0 1-.4 6.2z" />,
};

export function Glyph({ type }: { type: string }) {
  return (
    <svg className="glyph" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      {own(OF_TYPE, type) ?? OF_LINE[lineOf(type)]}
    </svg>
  );
}
