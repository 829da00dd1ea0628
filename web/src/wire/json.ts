/**
 * Reads JSON from the server field by field.
 *
 * A server may be older or newer than the page, so nothing is cast: a field that is missing or of another
 * type gets the stated default, and only a value without which an object makes no sense refuses it.
 */

/** A JSON object of unknown shape. */
export type Fields = Readonly<Record<string, unknown>>;

/** Returns `value` as an object, or an empty one. */
export function fields(value: unknown): Fields {
  return isFields(value) ? value : {};
}

/** Returns whether `value` is a JSON object. */
export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the list under `key`, or an empty one. */
export function list(from: Fields, key: string): readonly unknown[] {
  const value = from[key];
  return Array.isArray(value) ? value : [];
}

/** Returns the text under `key`, or `otherwise`. */
export function text(from: Fields, key: string, otherwise = ''): string {
  const value = from[key];
  return typeof value === 'string' ? value : otherwise;
}

/** Returns the finite number under `key`, or `otherwise`. */
export function number(from: Fields, key: string, otherwise = 0): number {
  const value = from[key];
  return typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
}

/** Returns the truth value under `key`, or false. */
export function flag(from: Fields, key: string): boolean {
  return from[key] === true;
}

/** Returns the text under `key` if it is one of `allowed`, else `otherwise`. */
export function oneOf<T extends string>(from: Fields, key: string, allowed: readonly T[], otherwise: T): T {
  const value = text(from, key);
  return allowed.find((word) => word === value) ?? otherwise;
}

/** Returns the numbers of an object `{name: n}`; other entries are left out. */
export function counts(from: Fields, key: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const [name, value] of Object.entries(fields(from[key]))) {
    if (typeof value === 'number' && Number.isFinite(value)) found.set(name, value);
  }
  return found;
}

/**
 * Parses JSON whose integers may exceed 2^53, which nanoseconds since 1970 do.
 *
 * Such integers come back as strings of all their digits wherever the key ends in `_ns`, so that {@link
 * nanoseconds} can read them exactly; everything else is ordinary JSON.
 */
export function parseJson(source: string): unknown {
  return JSON.parse(source.replace(/("\w*_ns"\s*:\s*)(-?\d{16,})/g, '$1"$2"'));
}

/** Returns the nanoseconds under `key`, exact if the text went through {@link parseJson}. */
export function nanoseconds(from: Fields, key: string): bigint {
  const value = from[key];
  if (typeof value === 'string' && /^-?\d+$/.test(value)) return BigInt(value);
  return typeof value === 'number' && Number.isFinite(value) ? BigInt(Math.round(value)) : 0n;
}

/**
 * Writes JSON in which texts of digits under a key that ends in `_ns` are integers: what {@link parseJson} read comes out as
 * it went in.
 */
export function writeJson(value: unknown): string {
  return JSON.stringify(value).replace(/("\w*_ns":)"(-?\d+)"/g, '$1$2');
}
