/**
 * Decodes the frames that show vectors over time: the columns that the page does not have yet.
 *
 * The layout's source of truth is `docs/protocol/page.md`. What frames of all kinds have in common is in `reader.ts`. Start at {@link decodeWaterfall}.
 */
import type { TraceRequest } from './messages';
import { isKind, Reader, type TraceState } from './reader';

/** The frame kind that carries columns of a waterfall. */
export const KIND_WATERFALL = 4;
/** Bytes before the columns. */
export const WATERFALL_HEADER_BYTES = 88;
/** Values of one frame. */
export const MAX_VALUES = 262_144;

const MAX_COLUMNS = 16_384;
const COLUMN_BYTES = 16;
const FLAG_LIVE = 1;
const FLAG_SLOW = 2;
const FLAG_ANEW = 4;
const FLAG_SHORT = 8;
const FLAG_NEAREST = 16;
const FLAGS_KNOWN = FLAG_LIVE | FLAG_SLOW | FLAG_ANEW | FLAG_SHORT | FLAG_NEAREST;

/** The samples of one stretch of time. */
export interface Column {
  /** Samples that arrived. */
  readonly present: number;
  /** Samples that were due. */
  readonly expected: number;
  /** Maxima from the first bin on, `NaN` where there is no number; empty if no sample arrived. */
  readonly bins: Float32Array;
}

/** What is new of a waterfall, and its window. */
export interface WaterfallFrame {
  readonly frame: number;
  readonly view: number;
  readonly state: TraceState;
  readonly live: boolean;
  readonly slow: boolean;
  /** The page forgets the columns that it has. */
  readonly anew: boolean;
  /** Fewer columns than usual are kept. */
  readonly short: boolean;
  readonly now: bigint;
  /** Number of the window's first column: that of a time is the time divided by the width. */
  readonly first: bigint;
  readonly columnNs: bigint;
  readonly count: number;
  readonly bins: number;
  /** Neighbouring elements that are one bin. */
  readonly block: number;
  /** Elements of a row. */
  readonly elements: number;
  readonly rows: number;
  /** Matrices in a sample, and the number of the one that this is. */
  readonly planes: number;
  readonly plane: number;
  /** The plane asked for is not there: this is the nearest. */
  readonly isNearest: boolean;
  readonly droppedFrames: number;
  /** Start of live memory; null: none. */
  readonly liveFrom: bigint | null;
  /** Columns by their place in the window. */
  readonly columns: ReadonlyMap<number, Column>;
}

/** A waterfall as the page asks for it. */
export interface WaterfallRequest {
  readonly view: number;
  readonly trace: TraceRequest;
  /** Indices of the plane, none of the first one. */
  readonly plane: readonly number[];
  readonly columns: number;
  readonly bins: number;
  readonly spanNs: bigint;
  /** Null follows the live edge. */
  readonly endNs: bigint | null;
}

/** Writes a request; the nanoseconds keep all their digits. */
export function writeWaterfall({ view, trace: { stream, channel }, plane, columns, bins, spanNs, endNs }: WaterfallRequest): string {
  const head = JSON.stringify({ type: 'waterfall', view, stream, channel, plane, columns, bins });
  return `${head.slice(0, -1)},"span_ns":${spanNs},"end_ns":${endNs ?? 'null'}}`;
}

/** Whether a frame says that it is of a waterfall. */
export function isWaterfall(buffer: ArrayBuffer): boolean {
  return isKind(buffer, KIND_WATERFALL);
}

/**
 * Decodes one frame.
 *
 * @throws MalformedFrame when any field contradicts the layout or the frame's length.
 */
export function decodeWaterfall(buffer: ArrayBuffer): WaterfallFrame {
  const reader = new Reader(buffer);
  const numbers = reader.head(KIND_WATERFALL, WATERFALL_HEADER_BYTES);
  const state = reader.traceState();
  const flags = reader.u8();
  if ((flags & ~FLAGS_KNOWN) !== 0 || reader.u16() !== 0) reader.refuse('flags');
  const [now, first, columnNs] = [reader.i64(), reader.i64(), reader.u64()];
  const [count, sent] = [reader.u32(), reader.u32()];
  const [bins, block, elements] = [reader.u32(), reader.u32(), reader.u32()];
  const [rows, planes, droppedFrames] = [reader.u32(), reader.u32(), reader.u32()];
  const liveFrom = reader.timeOrNone();
  const [plane, isNearest] = [reader.u32(), (flags & FLAG_NEAREST) !== 0];
  if (plane >= planes && (plane > 0 || isNearest)) reader.refuse('picture size');
  if (reader.u32() !== 0) reader.refuse('flags');
  if (columnNs === 0n) reader.refuse('column width');
  if (count > MAX_COLUMNS || sent > count) reader.refuse('column count');
  if (block === 0 || Math.ceil(elements / block) !== bins) reader.refuse('picture size');
  const columns = readColumns(reader, { count, sent, bins });
  reader.end();
  return {
    ...numbers, state, now, first, columnNs, count, bins, block, elements, rows, planes, plane, isNearest, droppedFrames, liveFrom, columns,
    live: (flags & FLAG_LIVE) !== 0, slow: (flags & FLAG_SLOW) !== 0, anew: (flags & FLAG_ANEW) !== 0, short: (flags & FLAG_SHORT) !== 0,
  };
}

function readColumns(reader: Reader, { count, sent, bins }: { readonly count: number; readonly sent: number; readonly bins: number }): Map<number, Column> {
  reader.need(sent, COLUMN_BYTES);
  let [least, filled] = [0, 0];
  const heads = Array.from({ length: sent }, () => {
    const [place, present, expected] = [reader.u32(), reader.u32(), reader.u32()];
    if (place < least || place >= count || present > expected || reader.u32() !== 0) reader.refuse('column range');
    least = place + 1;
    if (present > 0) filled += bins;
    return { place, present, expected };
  });
  if (filled > MAX_VALUES) reader.refuse('pixel count');
  reader.needPadded(filled * 4);
  const columns = new Map<number, Column>();
  // Copied: a column outlasts its frame.
  for (const { place, present, expected } of heads) columns.set(place, { present, expected, bins: present > 0 ? reader.singles(bins).slice() : new Float32Array(0) });
  reader.padding(filled * 4);
  return columns;
}
