/**
 * Formatting of numbers: sensible digits, SI prefixes, thin spaces, a true minus sign.
 *
 * Pure text making. Units come from the streams' schemas; a prefix is put only before units that take one
 * (`V`, `Hz`, `samples/s`), and one already there (`mV`) is understood.
 */

const PREFIXES: readonly (readonly [number, string])[] = [
  [-15, 'f'], [-12, 'p'], [-9, 'n'], [-6, 'µ'], [-3, 'm'], [0, ''], [3, 'k'], [6, 'M'], [9, 'G'], [12, 'T'], [15, 'P'],
];

/** Units that take SI prefixes. */
const SCALABLE = new Set([
  'V', 'A', 'W', 'J', 'Hz', 's', 'm', 'Pa', 'T', 'Wb', 'N', 'C', 'F', 'H', 'K', 'eV', 'Ω', 'g', 'B', 'bit', 'mol',
  'B/s', 'bit/s', 'samples/s', 'elements/s', 'm/s', 'm/s²', 'm/s^2', 'V/m', 'W/m²', 'rad/s',
]);

/** A narrow space that does not break. */
const THIN = '\u202f';
const MINUS = '−';

/** A unit and the factor that converts a value to it. */
export interface Display {
  readonly factor: number;
  readonly unit: string;
}

/** Splits `mV` into its power of ten and `V`; a unit that takes no prefix is left whole. */
export function parseUnit(unit: string): { power: number; base: string; scalable: boolean } {
  if (SCALABLE.has(unit)) return { power: 0, base: unit, scalable: true };
  const normal = unit.replace(/^u(?=.)/, 'µ').replace(/^μ/, 'µ');
  const found = PREFIXES.find(([, prefix]) => prefix !== '' && normal.startsWith(prefix));
  const base = found === undefined ? unit : normal.slice(found[1].length);
  if (found !== undefined && SCALABLE.has(base)) return { power: found[0], base, scalable: true };
  return { power: 0, base: unit, scalable: false };
}

/** Numbers of more digits than a figure has room for. */
const LONG = 1e12;
/** Smaller numbers would be mostly zeros. */
const SMALL = 1e-3;

/**
 * Returns the unit in which `magnitude` reads as 1 to 999, and the factor to it.
 *
 * A unit without prefixes stays as it is from a thousandth up to `long`; beyond it gets a power of ten: `×10⁻⁶ counts`.
 */
export function displayUnit(magnitude: number, unit: string, long = LONG): Display {
  const { power, base, scalable } = parseUnit(unit);
  if (!(magnitude > 0) || !Number.isFinite(magnitude)) return { factor: 1, unit };
  if (!scalable) return magnitude >= SMALL && magnitude < long ? { factor: 1, unit } : powerOfTen(magnitude, unit);
  const exponent = Math.floor(Math.log10(magnitude * (1 + 1e-12)) + power);
  const wanted = Math.max(-15, Math.min(15, Math.floor(exponent / 3) * 3));
  const prefix = PREFIXES.find(([step]) => step === wanted)?.[1] ?? '';
  return { factor: 10 ** (power - wanted), unit: prefix + base };
}

function powerOfTen(magnitude: number, unit: string): Display {
  const exponent = Math.floor(Math.log10(magnitude * (1 + 1e-12)) / 3) * 3;
  return { factor: 10 ** -exponent, unit: `×10${raised(exponent)} ${unit}`.trim() };
}

/** Groups both parts in threes with thin spaces, the whole one from five digits on, the fraction from six. */
export function grouped(digits: string): string {
  const [whole = '', fraction] = digits.split('.');
  const bare = whole.replace('-', '');
  const spaced = bare.length > 4 ? bare.replace(/\B(?=(\d{3})+$)/g, THIN) : bare;
  const behind = fraction !== undefined && fraction.length > 5 ? fraction.replace(/(\d{3})(?=\d)/g, `$1${THIN}`) : fraction;
  return (whole.startsWith('-') ? MINUS : '') + spaced + (behind === undefined ? '' : `.${behind}`);
}

/** Writes an exact count: `1 240 000`. */
export function count(value: number): string {
  return Number.isFinite(value) ? grouped(Math.round(value).toString()) : '–';
}

/** Writes a count short: `1.24 M`, `212`. The unit, if any, follows after a space. */
export function short(value: number, unit = ''): string {
  if (!Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  const step = PREFIXES.findLast(([power]) => power >= 0 && size >= 10 ** power * 0.9995) ?? [0, ''];
  const scaled = value / 10 ** step[0];
  const body = Number.isInteger(value) && step[0] === 0 ? grouped(value.toString()) : significant(scaled, 3);
  // A prefix belongs to a symbol (`kHz`) but is separate from a word (`k samples`).
  const word = unit.length > 3 && step[1] !== '';
  return [body, word ? `${step[1]} ${unit}` : `${step[1]}${unit}`].filter((part) => part !== '').join(THIN);
}

/** Writes `value` with `digits` significant digits, plain up to ten million, else as a power of ten. */
export function significant(value: number, digits: number): string {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return (0).toFixed(digits - 1);
  const [mantissa = '', exponent = '0'] = value.toExponential(digits - 1).split('e');
  const power = Number(exponent);
  if (power > 6 || power < -4) return scientific(value, digits);
  return grouped((Number(mantissa) * 10 ** power).toFixed(Math.max(0, digits - 1 - power)));
}

function scientific(value: number, digits: number): string {
  const [mantissa = '', exponent = ''] = value.toExponential(digits - 1).split('e');
  return `${mantissa.replace('-', MINUS)}·10${raised(Number(exponent))}`;
}

const raised = (exponent: number): string => [...String(exponent)].map((c) => SUPERSCRIPT[c] ?? c).join('');

const SUPERSCRIPT: Readonly<Record<string, string>> = {
  '-': '⁻', '0': '⁰', '1': '¹', '2': '²', '3': '³', '4': '⁴', '5': '⁵', '6': '⁶', '7': '⁷', '8': '⁸', '9': '⁹',
};

/** Writes a value in the display unit of its surroundings: fixed decimals, so that figures do not jump. */
export function inUnit(value: number, display: Display, decimals: number): string {
  if (!Number.isFinite(value)) return '–';
  const scaled = value * display.factor;
  if (Math.abs(scaled) >= LONG) return scientific(scaled, 4);
  const written = scaled.toFixed(Math.max(0, Math.min(MOST_DECIMALS, decimals, doubleDecimals(scaled))));
  return grouped(Number(written) === 0 ? written.replace('-', '') : written);
}

/** More decimals are in no unit that {@link displayUnit} chooses. */
const MOST_DECIMALS = 15;

/** The decimals up to which a double distinguishes neighbours of this size. */
const doubleDecimals = (value: number): number => 15 - Math.max(0, Math.floor(Math.log10(Math.abs(value) || 1)) + 1);

/** Returns the number of decimals that distinguish `parts` steps of `span` in the display unit. */
export function decimalsFor(span: number, display: Display, parts: number): number {
  const step = Math.abs(span * display.factor) / parts;
  if (!(step > 0) || !Number.isFinite(step)) return 0;
  return Math.max(0, Math.min(MOST_DECIMALS, Math.ceil(-Math.log10(step) - 1e-9)));
}

/** Writes a duration of nanoseconds with the unit that suits it: `3.6 µs`, `250 ms`, `4.2 s`, `3 min 20 s`. */
export function duration(ns: number): string {
  if (!Number.isFinite(ns)) return '–';
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)}${THIN}ns`;
  if (size < 60e9) {
    const display = displayUnit(size / 1e9, 's');
    return `${trimmed((ns / 1e9) * display.factor)}${THIN}${display.unit}`;
  }
  return longDuration(ns);
}

function trimmed(value: number): string {
  const written = significant(value, 3);
  return written.includes('.') ? written.replace(/\.?0+$/, '') : written;
}

function longDuration(ns: number): string {
  const seconds = Math.round(ns / 1e9);
  const steps: readonly (readonly [string, number])[] = [['d', 86_400], ['h', 3600], ['min', 60], ['s', 1]];
  const at = steps.findIndex(([, size]) => seconds >= size);
  const [unit, size] = steps[at] ?? ['s', 1];
  const [smaller, smallerSize] = steps[at + 1] ?? ['s', 1];
  const rest = Math.floor((seconds % size) / smallerSize);
  const head = `${Math.floor(seconds / size)}${THIN}${unit}`;
  return rest === 0 || at === 3 ? head : `${head} ${rest}${THIN}${smaller}`;
}
