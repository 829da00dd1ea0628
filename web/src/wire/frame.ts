/**
 * Decodes the view frames that the monitor sends over `/api/live`.
 *
 * The layout's source of truth is `docs/protocol/page.md`; what frames of all kinds have in common is in `reader.ts`.
 * Start at {@link decodeViewFrame}.
 *
 * Times are UTC nanoseconds as `bigint`, because a double resolves only 256 ns in this century. Samples are
 * not copied: {@link Columns} and {@link Points} look into the frame's own buffer. Columns that a frame does not repeat
 * are added by `kept.ts`.
 */
import { MAGIC, Reader, type TraceState } from './reader';

/** The frame kind that carries one view. */
export const KIND_VIEW = 1;
const FRAME_NUMBER_OFFSET = 4;
/** Bytes before the first trace. */
export const FRAME_HEADER_BYTES = 48;
/** Bytes of a trace before its samples. */
export const TRACE_HEADER_BYTES = 48;
/** Bytes of one gap. */
export const GAP_BYTES = 48;
/** Bytes of one min/max column of f32; an exact one has twice as many. */
export const COLUMN_BYTES = 8;
/** Bytes of the means of four columns. */
export const MEANS_BYTES = 8;
const MEANS_OF_GROUP = 4;
/** Steps from a column's smallest to its largest value in which its mean is counted. */
export const MEAN_STEPS = 65_534;
/** In place of a mean that is not known. */
export const MEAN_UNKNOWN = 65_535;
/** Bytes of one point. */
export const POINT_BYTES = 16;
/** Traces of the fullest view. */
export const MAX_TRACES = 1024;
/** Columns of the widest view a page may ask for: wider than any wall of screens known to us. */
export const MAX_COLUMNS = 16_384;
/** Points of one trace. */
export const MAX_POINTS = 16_384;
/** Gaps of one trace; a server that has more joins neighbours. */
export const MAX_GAPS = 4_096;

const MODE_COLUMNS = 0;
const MODE_POINTS = 1;
const MODE_EXACT = 2;
const MODE_MEANS = 3;
const MODE_EXACT_MEANS = 4;
const COLUMN_MODES: readonly number[] = [MODE_COLUMNS, MODE_EXACT, MODE_MEANS, MODE_EXACT_MEANS];
const FLAG_LIVE = 1;
const FLAG_SLOW = 2;
const FLAGS_KNOWN = FLAG_LIVE | FLAG_SLOW;
const GAP_APPORTIONED = 1;
const GAP_SEVERAL_STAGES = 2;
const GAP_FLAGS_KNOWN = GAP_APPORTIONED | GAP_SEVERAL_STAGES;
/** Hops before the last of a chain of relays. */
const MAX_HOPS = 8;
const CODE_SOURCE = 0;
/** The ledger's highest stage code. */
const LAST_STAGE = 24;

/** The gap codes beyond those of the ledger's stages. */
export const CODE_ABSENT = 253;
/** See {@link CODE_ABSENT}. */
export const CODE_UNEXPLAINED = 254;
/** See {@link CODE_ABSENT}. */
export const CODE_UNSETTLED = 255;

/** The smallest and largest value of each pixel column; `NaN` where a column holds nothing. */
export interface Columns {
  readonly kind: 'columns';
  /** Shape: `[min, max]` of each column, one behind the other. */
  readonly pairs: Float32Array | Float64Array;
  /** The mean of each column, in steps above its smallest value ({@link MEAN_STEPS}); null of a server that sends none. */
  readonly means: Uint16Array | null;
  /** Column of the view that has the first pair. */
  readonly first: number;
  readonly count: number;
  /** Columns before `first` that are those of the view's previous frame. */
  readonly kept: number;
}

/** Single samples; a point after a hole is preceded by one whose value is `NaN`. */
export interface Points {
  readonly kind: 'points';
  /** Nanoseconds since the frame's left edge: exact, being far below 2^53. */
  readonly offsets: Float64Array;
  readonly values: Float64Array;
  readonly count: number;
}

/** A run of samples that did not arrive. */
export interface GapRecord {
  readonly from: bigint;
  readonly to: bigint;
  readonly firstIndex: bigint;
  readonly samples: number;
  readonly lostElements: number;
  /** A code of the ledger's stages, {@link CODE_ABSENT}, {@link CODE_UNEXPLAINED} or {@link CODE_UNSETTLED}. */
  readonly code: number;
  readonly apportioned: boolean;
  readonly severalStages: boolean;
  /** Of stage `source` in a relayed stream: the earlier hop that lost most, and its code there; null: none is told. */
  readonly inherited: { readonly hop: number; readonly code: number } | null;
}

/** One trace of a view. */
export interface TraceFrame {
  /** The place of the trace in the view request. */
  readonly index: number;
  readonly state: TraceState;
  readonly body: Columns | Points;
  readonly samplesPerColumn: number;
  readonly newest: bigint;
  readonly newestValue: number;
  /** Data older than this came from the archive. */
  readonly liveMemoryFrom: bigint;
  readonly gaps: readonly GapRecord[];
}

/** One view at one moment. */
export interface ViewFrame {
  /** The number to give back as credit once the frame was shown. */
  readonly frame: number;
  readonly view: number;
  readonly live: boolean;
  /** The server thinned further than asked because this viewer is slow. */
  readonly slow: boolean;
  readonly now: bigint;
  readonly from: bigint;
  /** Nanoseconds of one column: column `k` covers `[from + k * column, from + (k + 1) * column)`. */
  readonly column: bigint;
  readonly columnCount: number;
  readonly droppedFrames: number;
  readonly traces: readonly TraceFrame[];
  readonly sizeBytes: number;
}

/** Returns the number of a frame, also of one that cannot be read further; null of what is no frame at all. */
export function frameNumber(buffer: ArrayBuffer): number | null {
  const view = new DataView(buffer);
  if (view.byteLength < FRAME_HEADER_BYTES || view.getUint16(0, true) !== MAGIC) return null;
  return view.getUint32(FRAME_NUMBER_OFFSET, true);
}

/**
 * Decodes one view frame.
 *
 * @throws MalformedFrame when any field contradicts the layout or the frame's length.
 */
export function decodeViewFrame(buffer: ArrayBuffer): ViewFrame {
  const reader = new Reader(buffer);
  const numbers = reader.head(KIND_VIEW, FRAME_HEADER_BYTES);
  const traceCount = reader.u16();
  const flags = reader.u16();
  const now = reader.i64();
  const from = reader.i64();
  const column = reader.u64();
  const columnCount = reader.u32();
  const droppedFrames = reader.u32();
  if ((flags & ~FLAGS_KNOWN) !== 0) reader.refuse('flags');
  if (traceCount > MAX_TRACES) reader.refuse('trace count');
  if (columnCount > MAX_COLUMNS) reader.refuse('column count');
  if (columnCount > 0 && column === 0n) reader.refuse('column width');
  reader.need(traceCount, TRACE_HEADER_BYTES);
  const traces: TraceFrame[] = [];
  for (let i = 0; i < traceCount; i += 1) traces.push(decodeTrace(reader, columnCount));
  reader.end();
  return {
    ...numbers,
    live: (flags & FLAG_LIVE) !== 0,
    slow: (flags & FLAG_SLOW) !== 0,
    now,
    from,
    column,
    columnCount,
    droppedFrames,
    traces,
    sizeBytes: buffer.byteLength,
  };
}

function decodeTrace(reader: Reader, columnCount: number): TraceFrame {
  reader.need(1, TRACE_HEADER_BYTES);
  const index = reader.u16();
  const state = reader.traceState();
  const mode = reader.u8();
  const count = reader.u32();
  const gapCount = reader.u32();
  const first = reader.u32();
  const samplesPerColumn = reader.f32();
  const kept = reader.u32();
  const newest = reader.i64();
  const newestValue = reader.f64();
  const liveMemoryFrom = reader.i64();
  if (kept > first) reader.refuse('kept columns');
  const body = mode === MODE_POINTS ? decodePoints(reader, count)
    : COLUMN_MODES.includes(mode) ? decodeColumns(reader, { first, count, kept, mode }, columnCount)
    : reader.refuse('trace mode');
  const gaps = decodeGaps(reader, gapCount);
  return { index, state, body, samplesPerColumn, newest, newestValue, liveMemoryFrom, gaps };
}

interface ColumnsHead {
  readonly first: number;
  readonly count: number;
  readonly kept: number;
  /** One of columns. */
  readonly mode: number;
}

function decodeColumns(reader: Reader, { first, count, kept, mode }: ColumnsHead, columnCount: number): Columns {
  const exact = mode === MODE_EXACT || mode === MODE_EXACT_MEANS;
  if (first + count > columnCount) reader.refuse('column range');
  reader.need(count, exact ? 2 * COLUMN_BYTES : COLUMN_BYTES);
  const pairs = exact ? reader.doubles(count * 2) : reader.singles(count * 2);
  const means = mode === MODE_MEANS || mode === MODE_EXACT_MEANS ? decodeMeans(reader, count) : null;
  return { kind: 'columns', pairs, means, first, count, kept };
}

/** Means come in groups, the last one filled up with zeros. */
function decodeMeans(reader: Reader, count: number): Uint16Array {
  const groups = Math.ceil(count / MEANS_OF_GROUP);
  reader.need(groups, MEANS_BYTES);
  const all = Uint16Array.from({ length: groups * MEANS_OF_GROUP }, () => reader.u16());
  if (all.subarray(count).some((unused) => unused !== 0)) reader.refuse('means');
  return all.subarray(0, count);
}

function decodePoints(reader: Reader, count: number): Points {
  if (count > MAX_POINTS) reader.refuse('point count');
  reader.need(count, POINT_BYTES);
  const offsets = new Float64Array(count);
  const values = new Float64Array(count);
  let last = -Infinity;
  for (let i = 0; i < count; i += 1) {
    const offset = Number(reader.i64());
    if (offset < last) reader.refuse('point order');
    last = offset;
    offsets[i] = offset;
    values[i] = reader.f64();
  }
  return { kind: 'points', offsets, values, count };
}

function decodeGaps(reader: Reader, count: number): GapRecord[] {
  if (count > MAX_GAPS) reader.refuse('gap count');
  reader.need(count, GAP_BYTES);
  const gaps: GapRecord[] = [];
  for (let i = 0; i < count; i += 1) gaps.push(decodeGap(reader));
  return gaps;
}

function decodeGap(reader: Reader): GapRecord {
  const from = reader.i64();
  const to = reader.i64();
  if (to < from) reader.refuse('gap range');
  const lostElements = Number(reader.u64());
  const code = reader.u8();
  const flags = reader.u8();
  if (code > LAST_STAGE && code < CODE_ABSENT) reader.refuse('stage');
  if ((flags & ~GAP_FLAGS_KNOWN) !== 0) reader.refuse('gap flags');
  const inherited = decodeInherited(reader, code);
  reader.skip(4);
  const firstIndex = reader.u64();
  const samples = Number(reader.u64());
  const apportioned = (flags & GAP_APPORTIONED) !== 0;
  const severalStages = (flags & GAP_SEVERAL_STAGES) !== 0;
  return { from, to, firstIndex, samples, lostElements, code, apportioned, severalStages, inherited };
}

/** The earlier hop of a gap: one that there can be, and only of stage `source`. */
function decodeInherited(reader: Reader, stage: number): GapRecord['inherited'] {
  const [hop, code] = [reader.u8(), reader.u8()];
  if (hop > MAX_HOPS || (hop > 0 && stage !== CODE_SOURCE) || (hop === 0 && code !== 0)) reader.refuse('hop');
  if (code > LAST_STAGE && code < CODE_UNEXPLAINED) reader.refuse('stage');
  return hop === 0 ? null : { hop: hop - 1, code };
}
