/**
 * Marks of runs in plots: where a run starts and ends, and time that is counted from a start.
 */
import { sameRun, type Run } from './runs';
import { SECOND, timeTicks, type Ticks } from './time';
import type { Shown } from './window';

/** A start or an end. */
export interface RunMark {
  readonly at: bigint;
  readonly id: string;
  readonly edge: 'start' | 'end';
  /** Whether it is of the run that is shown. */
  readonly chosen: boolean;
}

/** More marks than these in one plot hide it: then only those of the run that is shown are drawn. */
export const MOST_MARKS = 24;
const MINUTE = 60n * SECOND;
const HOUR = 60n * MINUTE;

/** A stretch of time of which the runs are known; without an end it has those to come, too. */
export interface Around {
  readonly from: bigint;
  readonly to: bigint | null;
}

/** Runs asked for at one time. */
export const MOST_AROUND = 200;

/**
 * Returns the stretch of time to ask for: what plots show and as much on either side, so that a small step asks nothing. Where there
 * are more runs than one answer has, what they show alone. Plots that follow have runs to come, too: they are told of each.
 */
export function aroundOf({ from, spanNs }: Shown, follows: boolean, crowded: boolean): Around {
  const margin = crowded ? 0n : spanNs;
  return { from: from - margin, to: follows ? null : from + spanNs + margin };
}

/** Returns whether the runs of what plots show are known. */
export const isAround = (known: Around, { from, spanNs }: Shown): boolean => from >= known.from && (known.to === null || from + spanNs <= known.to);

/** Returns all runs of several lists, each once; the first list tells most recently. */
export function joined(...lists: readonly (readonly Run[])[]): readonly Run[] {
  const found = new Map<string, Run>();
  for (const run of lists.flat()) {
    const key = `${run.id} ${run.startNs ?? `stop ${run.endNs}`}`;
    if (!found.has(key)) found.set(key, run);
  }
  return [...found.values()];
}

/** Returns the marks of all runs, by time. */
export function runMarks(runs: readonly Run[], chosen: Run | null): readonly RunMark[] {
  const marks = runs.flatMap((run): readonly RunMark[] => {
    const isChosen = chosen !== null && sameRun(run, chosen);
    return ([[run.startNs, 'start'], [run.endNs, 'end']] as const).flatMap(([at, edge]) => (at === null ? [] : [{ at, id: run.id, edge, chosen: isChosen }]));
  });
  return marks.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}

/** Returns the marks within a stretch of time with their shares of its width. */
export function placedMarks(marks: readonly RunMark[], shown: Shown): readonly { readonly share: number; readonly mark: RunMark }[] {
  const to = shown.from + shown.spanNs;
  const inside: RunMark[] = [];
  for (let i = firstFrom(marks, shown.from); i < marks.length; i += 1) {
    const mark = marks[i];
    if (mark === undefined || mark.at > to) break;
    inside.push(mark);
  }
  const drawn = inside.length > MOST_MARKS ? inside.filter((mark) => mark.chosen) : inside;
  return drawn.map((mark) => ({ share: Number(mark.at - shown.from) / Number(shown.spanNs), mark }));
}

/** A mark in a plot, and the words beside it. */
export interface FlaggedMark {
  /** From the left edge of the data, in CSS pixels. */
  readonly x: number;
  readonly mark: RunMark;
  /** Empty where there is no room for it. */
  readonly label: string;
  /** Side of the line on which the label is. */
  readonly side: 'left' | 'right';
}

/** Room of a label of so many characters, generously. */
export const labelPx = (characters: number): number => 7 * characters + 12;

/** Returns the marks in a plot whose data are `width` wide, with labels where no other is: first those of the run that is shown. */
export function flagged(marks: readonly RunMark[], shown: Shown, width: number): readonly FlaggedMark[] {
  const placed = placedMarks(marks, shown).map(({ share, mark }) => {
    const starts = mark.edge === 'start';
    const label = starts ? `▸ ${mark.id}` : `${mark.id} ◂`;
    const [x, room] = [share * width, labelPx(label.length)];
    // Beyond the plot's edge there is no room for it.
    const side: FlaggedMark['side'] = starts === ((starts ? width - x : x) < room) ? 'left' : 'right';
    return { x, mark, label, side, from: side === 'left' ? x - room : x, to: side === 'left' ? x : x + room };
  });
  const taken: (typeof placed)[number][] = [];
  for (const each of [...placed.filter(({ mark }) => mark.chosen), ...placed.filter(({ mark }) => !mark.chosen)]) {
    if (taken.every(({ from, to }) => each.to <= from || each.from >= to)) taken.push(each);
  }
  return placed.map((each) => ({ x: each.x, mark: each.mark, label: taken.includes(each) ? each.label : '', side: each.side }));
}

/** Index of the first mark at or after a moment: every plot looks for it with every frame. */
function firstFrom(marks: readonly RunMark[], from: bigint): number {
  let [low, high] = [0, marks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((marks[middle]?.at ?? 0n) < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns ticks on round times since `zero`. */
export function relativeTicks(from: bigint, to: bigint, wanted: number, zero: bigint): Ticks {
  const ticks = timeTicks(from - zero, to - zero, wanted, 'utc');
  return { ...ticks, at: ticks.at.map((at) => at + zero) };
}

/** Writes a tick as the time since `zero`: seconds, or minutes and hours where ticks are that far apart. */
export function relativeLabel(at: bigint, { stepNs, digits }: Ticks, zero: bigint): string {
  const since = at - zero;
  if (since === 0n) return 't = 0';
  if (stepNs >= HOUR && stepNs % HOUR === 0n) return `${signed(since / HOUR)} h`;
  if (stepNs >= MINUTE && stepNs % MINUTE === 0n) return `${signed(since / MINUTE)} min`;
  return secondsText(since, digits);
}

const signed = (value: bigint): string => (value < 0n ? `−${-value}` : `${value}`);

/** Writes nanoseconds as seconds with `digits` decimals, cut off. */
export function secondsText(ns: bigint, digits: number): string {
  const size = ns < 0n ? -ns : ns;
  const fraction = (size % SECOND).toString().padStart(9, '0').slice(0, digits);
  return `${ns < 0n ? '−' : ''}${size / SECOND}${digits > 0 ? `.${fraction}` : ''} s`;
}
