/**
 * Formatting of time: clock times, dates, and the ticks of a time axis.
 *
 * All times are UTC nanoseconds as `bigint`. The time zone is an argument (`local` or `utc`), so that the
 * texts are the same wherever the tests run.
 */

/** Nanoseconds of a second. */
export const SECOND = 1_000_000_000n;
const MILLISECOND = 1_000_000n;

/** In which zone times are shown. */
export type Zone = 'local' | 'utc';

const pad = (value: number | bigint, width = 2): string => value.toString().padStart(width, '0');

/** Milliseconds since 1970, floored, and the nanoseconds left over. */
function split(ns: bigint): { ms: number; rest: bigint } {
  const rest = ((ns % MILLISECOND) + MILLISECOND) % MILLISECOND;
  return { ms: Number((ns - rest) / MILLISECOND), rest };
}

/** Nanoseconds by which the zone is ahead of UTC at `ns`. */
export function zoneOffset(ns: bigint, zone: Zone): bigint {
  if (zone === 'utc') return 0n;
  return BigInt(-new Date(split(ns).ms).getTimezoneOffset()) * 60n * SECOND;
}

/** Writes the time of day with `digits` decimals of a second, 0 to 9. */
export function clock(ns: bigint, zone: Zone, digits = 0): string {
  const { ms, rest } = split(ns);
  const date = new Date(ms);
  const [h, m, s] = zone === 'utc'
    ? [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
    : [date.getHours(), date.getMinutes(), date.getSeconds()];
  const fraction = pad(BigInt(((ms % 1000) + 1000) % 1000) * MILLISECOND + rest, 9).slice(0, digits);
  return `${pad(h)}:${pad(m)}:${pad(s)}${digits > 0 ? `.${fraction}` : ''}`;
}

/** Writes the date: `2026-11-21`. */
export function day(ns: bigint, zone: Zone): string {
  const date = new Date(split(ns).ms);
  return zone === 'utc'
    ? `${date.getUTCFullYear()}-${pad(date.getUTCMonth() + 1)}-${pad(date.getUTCDate())}`
    : `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}

/** Writes date, time to the nanosecond and zone: what a hover shows and a note should quote. */
export function full(ns: bigint, zone: Zone): string {
  return `${day(ns, zone)} ${clock(ns, zone, 9)}${zone === 'utc' ? ' UTC' : ''}`;
}

/** Returns the number of decimals of a second that distinguish the pixels of a window. */
export function pixelDigits(spanNs: bigint, widthPx: number): number {
  const perPixel = Number(spanNs) / 1e9 / Math.max(1, widthPx);
  return Math.max(0, Math.min(9, Math.ceil(-Math.log10(perPixel))));
}

/** Steps between ticks that read well: 1-2-5 below a second, then those of the clock. */
const STEPS: readonly bigint[] = [
  ...[0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((power) => [1n, 2n, 5n].map((n) => n * 10n ** BigInt(power))),
  ...[1n, 2n, 5n, 10n, 15n, 30n, 60n, 120n, 300n, 600n, 900n, 1800n, 3600n, 7200n, 10_800n, 21_600n, 43_200n, 86_400n,
    172_800n, 604_800n].map((seconds) => seconds * SECOND),
];

/** The ticks of a time axis. */
export interface Ticks {
  readonly at: readonly bigint[];
  readonly stepNs: bigint;
  /** Number of decimals of a second that distinguish neighbours. */
  readonly digits: number;
}

/** Maximum number of ticks of an axis. */
const MAX_TICKS = 64;

/** Returns ticks in `[from, to]`, about `wanted` of them, on round times of the zone. */
export function timeTicks(from: bigint, to: bigint, wanted: number, zone: Zone): Ticks {
  const span = to - from;
  const atLeast = span / BigInt(Math.max(1, Math.min(MAX_TICKS, Math.floor(wanted))));
  const stepNs = STEPS.find((step) => step >= atLeast && step > 0n) ?? 604_800n * SECOND;
  const shift = zoneOffset(from, zone);
  const at: bigint[] = [];
  for (let tick = ceilTo(from + shift, stepNs) - shift; tick <= to && at.length <= MAX_TICKS; tick += stepNs) {
    at.push(tick);
  }
  return { at, stepNs, digits: digitsOf(stepNs) };
}

function ceilTo(value: bigint, step: bigint): bigint {
  const rest = ((value % step) + step) % step;
  return rest === 0n ? value : value + step - rest;
}

function digitsOf(step: bigint): number {
  let digits = 9;
  let unit = 1n;
  while (digits > 0 && step % (unit * 10n) === 0n) {
    unit *= 10n;
    digits -= 1;
  }
  return digits;
}

/** Writes a tick: as short as distinguishes it; midnight shows the date. */
export function tickLabel(ns: bigint, ticks: Ticks, zone: Zone): string {
  if (ticks.stepNs >= 86_400n * SECOND) return day(ns, zone).slice(5);
  const time = clock(ns, zone, ticks.digits);
  if (time.startsWith('00:00:00') && ticks.stepNs >= 60n * SECOND) return day(ns, zone).slice(5);
  if (ticks.stepNs < MILLISECOND) return `:${time.slice(6)}`;
  return ticks.stepNs >= 60n * SECOND ? time.slice(0, 5) : time;
}
