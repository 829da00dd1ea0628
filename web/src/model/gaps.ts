/**
 * Gaps as a plot shows them: one list per plot, where each falls on the screen, which one is under the
 * pointer, which one comes next, and its description.
 */
import { CODE_ABSENT, CODE_UNEXPLAINED, CODE_UNSETTLED, type GapRecord, type ViewFrame } from '../wire/frame';
import type { GapDetail, SocketCounts, TraceRequest } from '../wire/messages';
import { rowsOf, type LossRow } from './hops';
import { count, duration } from './quantity';
import { socketLine } from './socket';
import { ABSENT, onHop, stageLabel, stageOfCode, STAGES, UNEXPLAINED, UNSETTLED, type Stage } from './stage';
import { day, full, type Zone } from './time';

/** A gap of one stream in a plot. */
export interface PlotGap extends GapRecord {
  readonly stream: string;
  readonly stage: Stage;
}

/** Returns the gaps of a frame's traces by time; channels of one stream share theirs. */
export function plotGaps(frame: ViewFrame, traces: readonly TraceRequest[]): readonly PlotGap[] {
  const seen = new Set<string>();
  const gaps: PlotGap[] = [];
  for (const trace of frame.traces) {
    const stream = traces[trace.index]?.stream;
    if (stream === undefined || seen.has(stream)) continue;
    seen.add(stream);
    for (const gap of trace.gaps) gaps.push({ ...gap, stream, stage: stageOf(gap) });
  }
  return gaps.sort((a, b) => (a.from < b.from ? -1 : a.from > b.from ? 1 : 0));
}

function stageOf({ code, inherited }: GapRecord): Stage {
  return inherited === null ? stageOfCode(code) : onHop(stageOfCode(inherited.code), inherited.hop);
}

/** Names a gap across frames: a gap that settles keeps its place and only changes its stage. */
export function gapKey(gap: Pick<PlotGap, 'stream' | 'firstIndex' | 'from'>): string {
  return `${gap.stream} ${gap.firstIndex} ${gap.from}`;
}

/** Tells how much is missing in a picture, where gaps may lie on each other: `2 holes of 1 500 samples`. */
export function gapsText(gaps: readonly PlotGap[]): string {
  if (gaps.length === 0) return '';
  const samples = gaps.reduce((sum, gap) => sum + Number(gap.samples), 0);
  return `${gaps.length === 1 ? '1 hole' : `${count(gaps.length)} holes`} of ${count(samples)} ${samples === 1 ? 'sample' : 'samples'}`;
}

/** A gap's place on the screen, in pixels from the plot's left edge. */
export interface Band {
  readonly gap: PlotGap;
  readonly left: number;
  readonly width: number;
}

/** The narrowest gap that still gets a hatched band; narrower ones show on the loss strip alone. */
export const MIN_BAND_PX = 1;
/** Every gap is at least this wide on the loss strip. */
export const MIN_TICK_PX = 3;

/** Returns the positions of the gaps on a plot `widthPx` wide that shows `spanNs` from `from` on. */
export function bands(gaps: readonly PlotGap[], from: bigint, spanNs: bigint, widthPx: number): readonly Band[] {
  const perNs = widthPx / Number(spanNs);
  const found: Band[] = [];
  for (const gap of gaps) {
    const left = Number(gap.from - from) * perNs;
    const right = Number(gap.to - from) * perNs;
    if (right < 0 || left > widthPx) continue;
    const clipped = Math.max(0, left);
    found.push({ gap, left: clipped, width: Math.min(widthPx, right) - clipped });
  }
  return found;
}

/** Returns the gap under `x`: the narrowest within reach, since a wide one is easy to hit elsewhere. */
export function bandAt(all: readonly Band[], x: number, reachPx: number): Band | null {
  let best: Band | null = null;
  for (const band of all) {
    const inside = x >= band.left - reachPx && x <= band.left + band.width + reachPx;
    if (inside && (best === null || band.width < best.width)) best = band;
  }
  return best;
}

/** Direction of the neighbour. */
export type Direction = 'next' | 'previous';

/** Returns the gap after (or before) `at`, or null if there is none. */
export function neighbour(gaps: readonly PlotGap[], at: bigint, direction: Direction): PlotGap | null {
  const found = direction === 'next' ? gaps.find((gap) => gap.from > at) : gaps.findLast((gap) => gap.from < at);
  return found ?? null;
}

/** Returns the stages of a gap with their elements, most first; what is unexplained or pending comes last. */
export function lossRows(detail: GapDetail): readonly LossRow[] {
  const rows = [...rowsOf({ ...detail, unexplained: 0, unsettled: 0 })];
  rows.sort((a, b) => b[1] - a[1]);
  if (detail.unexplained > 0) rows.push([UNEXPLAINED, detail.unexplained]);
  if (detail.unsettled > 0) rows.push([UNSETTLED, detail.unsettled]);
  if (detail.absent > 0 || (detail.isAbsence && rows.length === 0)) rows.push([ABSENT, detail.absent]);
  return rows;
}

/** Finds the detail that belongs to a gap of a frame: the same first index, else the nearest that overlaps. */
export function detailOf(details: readonly GapDetail[], gap: PlotGap): GapDetail | null {
  const first = Number(gap.firstIndex);
  const same = details.find((detail) => detail.firstIndex === first && overlaps(detail, gap));
  return same ?? details.find((detail) => overlaps(detail, gap)) ?? null;
}

/** Returns a gap of the list as a plot would show it. */
export function gapOfDetail(stream: string, detail: GapDetail): PlotGap {
  const rows = lossRows(detail);
  const stage = rows[0]?.[0] ?? UNEXPLAINED;
  const code = codeOf(stage);
  return {
    stream,
    stage,
    code: stage.hop === undefined ? code : 0,
    inherited: stage.hop === undefined ? null : { hop: stage.hop, code },
    from: detail.from,
    to: detail.to,
    firstIndex: BigInt(detail.firstIndex),
    samples: detail.samples,
    lostElements: rows.reduce((sum, [, lost]) => sum + lost, 0),
    apportioned: detail.apportioned,
    severalStages: rows.length > 1,
  };
}

function codeOf(stage: Stage): number {
  if (stage.name === UNSETTLED.name) return CODE_UNSETTLED;
  if (stage === ABSENT) return CODE_ABSENT;
  const known = STAGES.findIndex((each) => each.name === stage.name);
  return known < 0 ? CODE_UNEXPLAINED : known;
}

const overlaps = (detail: GapDetail, gap: PlotGap): boolean => detail.from <= gap.to && detail.to >= gap.from;

/** Describes a gap in one sentence, for users and for screen readers. */
export function gapSentence(gap: PlotGap): string {
  const also = gap.severalStages ? ' and others' : '';
  return `${samples(gap.samples)} missing: ${gap.stage.words}${also}, ${duration(Number(gap.to - gap.from))}`;
}

/** Writes a number of samples with the noun. */
export function samples(value: number): string {
  return `${count(value)} ${Math.round(value) === 1 ? 'sample' : 'samples'}`;
}

/** Writes the gaps of a stream, and what its socket counts, as a text to paste into a logbook. */
export function gapsAsText(stream: string, gaps: readonly GapDetail[], socket: SocketCounts | null, zone: Zone): string {
  const head = `${stream}: ${gaps.length} ${gaps.length === 1 ? 'gap' : 'gaps'}${gaps[0] === undefined ? '' : `, ${day(gaps[0].from, zone)}`}`;
  const lines = gaps.map((gap) => {
    const stages = lossRows(gap).map(([stage, lost]) => `${stageLabel(stage)} ${lost}`).join(', ');
    const first = `${full(gap.from, zone)}  ${duration(Number(gap.to - gap.from))}  from index ${gap.firstIndex}  `
      + `${samples(gap.samples)}  [${stages} elements${gap.apportioned ? ', apportioned' : ''}]`;
    return [first, ...gap.evidence.map((line) => `    ${line}`)].join('\n');
  });
  return `${[head, ...(socket === null ? [] : [socketLine(socket)]), ...lines].join('\n')}\n`;
}
