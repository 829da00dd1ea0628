/**
 * Files of what a plot shows: which requests make them, how they are named, and the command line that writes what is too
 * much for one answer.
 */
import type { Stream, TraceRequest } from '../wire/messages';
import { count, duration } from './quantity';
import { day, clock } from './time';

/** The most values of an export of every sample: `docs/protocol/page.md`, limits of requests. */
export const MAX_VALUES = 1_000_000;
/** Columns of a thinned export: as many as one request may have. */
export const COLUMNS = 16_384;

/** Forms of a file of values. */
export const FORMS = ['csv', 'parquet'] as const;
/** Form of a file of values. */
export type Form = (typeof FORMS)[number];
/** Every sample, or the extremes of columns. */
export type Values = 'samples' | 'columns';

/** A stretch of time, the end exclusive. */
export interface Stretch {
  readonly from: bigint;
  readonly to: bigint;
}

/** The channels of one stream that a plot shows: one file. */
export interface ExportPart {
  readonly stream: string;
  readonly channels: readonly string[];
  /** Values in the stretch if none is missing; null if the stream's rate is not known. */
  readonly values: number | null;
}

/** Returns the files that hold the traces of a plot in a stretch of time: one for each stream. */
export function partsOf(traces: readonly TraceRequest[], stretch: Stretch, catalogue: ReadonlyMap<string, Stream>): readonly ExportPart[] {
  const streams = [...new Set(traces.map(({ stream }) => stream))];
  return streams.map((stream) => {
    const channels = traces.filter((trace) => trace.stream === stream).map(({ channel }) => channel);
    const rate = catalogue.get(stream)?.nominalRate;
    const samples = rate === undefined ? null : Math.ceil((Number(stretch.to - stretch.from) / 1e9) * rate);
    return { stream, channels, values: samples === null ? null : samples * channels.length };
  });
}

/** Returns whether a file of every sample is too much for one answer, as far as that is known before. */
export const isTooMuch = (part: ExportPart): boolean => part.values !== null && part.values > MAX_VALUES;

/** Returns the path and query of a file. */
export function exportPath(part: ExportPart, stretch: Stretch, form: Form, values: Values): string {
  const query = new URLSearchParams({ stream: part.stream });
  part.channels.forEach((channel) => query.append('channel', channel));
  const rest = { from: `${stretch.from}`, to: `${stretch.to}`, format: form, values, ...(values === 'columns' ? { points: `${COLUMNS}` } : {}) };
  Object.entries(rest).forEach(([name, value]) => query.append(name, value));
  return `/api/export?${query}`;
}

/** Returns a name that every file system takes: `lab-probe 2026-11-21 201500.csv`. */
export function fileName(what: string, at: bigint, ending: string): string {
  const safe = what.replace(/[^\p{L}\p{N}._-]+/gu, '-').replace(/^[-.]+|-+$/g, '').slice(0, 100) || 'plot';
  return `${safe}_${day(at, 'utc')}_${clock(at, 'utc').replaceAll(':', '')}Z.${ending}`;
}

/** Returns the command that writes every sample of a stream from the archive, all its channels. */
export function commandLine(part: ExportPart, stretch: Stretch, form: Form): string {
  const target = fileName(part.stream, stretch.from, form);
  return `tallycast query ${quoted(part.stream)} --from ${stretch.from} --to ${stretch.to} --export ${form} ${quoted(target)}`;
}

/** Quotes a word for a POSIX shell where it needs that. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Tells the size of a file of every sample. */
export function sizeText(part: ExportPart): string {
  if (part.values === null) return '';
  const said = `${count(part.values)} values`;
  return isTooMuch(part) ? `${said}: more than the ${count(MAX_VALUES)} of one file` : said;
}

/** Tells the width of the columns of a thinned file. */
export function columnText(stretch: Stretch): string {
  return `least and greatest of every ${duration(Math.ceil(Number(stretch.to - stretch.from) / COLUMNS))}`;
}
