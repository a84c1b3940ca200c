// JSON without loss: a number that JavaScript would write otherwise (1.0, 2^60) keeps its own text.
//
// A workflow passes through the page and back (an inspector replaces an operator's properties), and
// the service promises that nothing of it changes on the way.

interface RawJson {
  rawJSON: string;
}

interface LosslessJson {
  rawJSON?: (text: string) => RawJson;
  isRawJSON?: (value: unknown) => value is RawJson;
}

const lossless = JSON as unknown as LosslessJson;

// Numbers that may not survive: long integers, exponents, a trailing zero after the point, minus 0.
const SUSPECT = /\d{16}|\d[eE]|\.\d*0(?!\d)|-0(?![.\d])/;

/** Parses `text`; a number whose shortest JavaScript form differs stays as its own text. */
export function parseJson(text: string): unknown {
  const raw = lossless.rawJSON;
  if (!raw || !SUSPECT.test(text)) return JSON.parse(text) as unknown;
  const keep = (_key: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === "number" && context?.source !== undefined && String(value) !== context.source
      ? raw(context.source)
      : value;
  return JSON.parse(text, keep as (key: string, value: unknown) => unknown) as unknown;
}

/** The number behind a value that `parseJson` gave, or `fallback` when it is not one. */
export function toNumber(value: unknown, fallback = 0): number {
  const number = lossless.isRawJSON?.(value) ? Number(value.rawJSON) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : fallback;
}

/** Whether the value is a number, kept as text or not. */
export function isNumber(value: unknown): boolean {
  return typeof value === "number" || lossless.isRawJSON?.(value) === true;
}
