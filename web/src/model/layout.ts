/**
 * The state of the page, and the address that encodes it: plots, their sizes and axes, the window of time, the cursors.
 *
 * `read(write(page))` is `page`; invalid parts of an address are left out rather than refused, so that an
 * old link still shows what it can.
 */
import type { TraceRequest } from '../wire/messages';
import { PANELS, type PanelKind } from './picture';
import { FIRST_PLANE, readPlane, type Plane } from './plane';
import type { ShownRun } from './run-link';
import { AUTO, type AxisMode } from './scale';
import type { Cursors } from './stretch';
import { DEFAULT_WINDOW, MAX_SPAN, MIN_SPAN, type TimeWindow } from './window';

/** The most plots a page holds: a server sends a page up to 64 views, and a shared view has places for as many plots as these. */
export const MAX_PLOTS = 24;
/** The most traces a plot holds: as many as a view of the server. */
export const MAX_TRACES = 100;
/** The columns of the grid that widths are counted in. */
export const GRID_COLUMNS = 12;
/** The tallest plot, in rows. */
export const MAX_ROWS = 4;

/** One plot. */
export interface Plot {
  readonly traces: readonly TraceRequest[];
  /** Width in twelfths of the page; null leaves it to the page. */
  readonly columns: number | null;
  readonly rows: number;
  readonly axis: AxisMode;
  readonly panel: PanelKind;
  /** Axes of a spectrum that are logarithmic; `y` of a waterfall: decibels. */
  readonly log: LogAxes;
  /** The plane of an image, a spectrum or a waterfall. */
  readonly plane: Plane;
}

/** Logarithmic axes. */
export type LogAxes = '' | 'x' | 'y' | 'xy';
export const LOGS: readonly LogAxes[] = ['', 'x', 'y', 'xy'];

/** State encoded in an address. */
export interface Layout {
  readonly plots: readonly Plot[];
  readonly window: TimeWindow;
  /** The plot that fills the page, or null. */
  readonly single: number | null;
  /** The two cursors, or null. */
  readonly cursors: Cursors | null;
  /** The run that the plots show, or null; `run-link.ts` has it in an address. */
  readonly run: ShownRun | null;
}

/** A page that shows nothing yet. */
export const EMPTY_LAYOUT: Layout = { plots: [], window: DEFAULT_WINDOW, single: null, cursors: null, run: null };

/** Returns whether a kind of panel has logarithmic axes. */
export const hasLog = (panel: PanelKind): boolean => panel === 'spectrum' || panel === 'waterfall';

/** Returns whether a kind of panel shows one plane of samples. */
export const hasPlane = (panel: PanelKind): boolean => panel === 'image' || hasLog(panel);

/** Returns the most traces of a kind of panel. Alarms are those of the bus. */
function mostTraces(panel: PanelKind): number {
  if (panel === 'alarms') return 0;
  return panel === 'trend' || panel === 'table' ? MAX_TRACES : 1;
}

/** Returns whether a plot shows anything. */
export const isPlot = ({ panel, traces }: Plot): boolean => panel === 'alarms' || traces.length > 0;

/** Returns a plot of these traces with everything else left to the page. */
export function plotOf(traces: readonly TraceRequest[], panel: PanelKind = 'trend'): Plot {
  const kept = traces.slice(0, mostTraces(panel));
  return { traces: kept, columns: null, rows: 1, axis: AUTO, panel, log: hasLog(panel) ? 'y' : '', plane: FIRST_PLANE };
}

/** Returns the default width of a plot, in twelfths, among `count` plots. */
export function defaultColumns(count: number): number {
  if (count <= 3) return 12;
  return count <= 8 ? 6 : 4;
}

/** Returns whether two traces are the same. */
export function sameTrace(a: TraceRequest, b: TraceRequest): boolean {
  return a.stream === b.stream && a.channel === b.channel;
}

/** Returns the plot with these traces overlaid on its own, without duplicates. */
export function overlay(plot: Plot, added: readonly TraceRequest[]): Plot {
  const fresh = added.filter((trace) => !plot.traces.some((own) => sameTrace(own, trace)));
  return { ...plot, traces: [...plot.traces, ...fresh].slice(0, MAX_TRACES) };
}

/** Tells how many of these traces found no room in the plot made of them, or is empty. */
export function withoutRoom(plot: Plot, traces: readonly TraceRequest[]): string {
  const left = traces.filter((trace) => !plot.traces.some((own) => sameTrace(own, trace))).length;
  return left === 0 ? '' : `A plot holds at most ${MAX_TRACES} traces: ${left} left out`;
}

/** Writes the layout as the query of an address, without the question mark. */
export function writeLayout(layout: Layout): string {
  const parts = [`span=${writeSpan(layout.window.spanNs)}`];
  if (layout.window.endNs !== null) parts.push(`end=${layout.window.endNs}`);
  if (layout.single !== null) parts.push(`single=${layout.single}`);
  if (layout.cursors !== null) parts.push(`cursors=${layout.cursors.a},${layout.cursors.b}`);
  for (const plot of layout.plots) parts.push(`plot=${writePlot(plot)}`);
  return parts.join('&');
}

function writePlot(plot: Plot): string {
  const traces = plot.traces.map((trace) => `${escape(trace.stream)}:${escape(trace.channel)}`).join(',');
  const columns = plot.columns === null ? '' : `;w=${plot.columns}`;
  const rows = plot.rows === 1 ? '' : `;h=${plot.rows}`;
  const axis = plot.axis.kind === 'auto' ? '' : `;y=${plot.axis.kind}:${plot.axis.range.low}:${plot.axis.range.high}`;
  const panel = plot.panel === 'trend' ? '' : `;panel=${plot.panel}`;
  const log = hasLog(plot.panel) && plot.log !== 'y' ? `;log=${plot.log}` : '';
  const plane = plot.plane.length === 0 ? '' : `;plane=${plot.plane.join(',')}`;
  return traces + columns + rows + axis + panel + log + plane;
}

/** Escapes what has a meaning here but leaves the slashes of paths readable. */
function escape(name: string): string {
  return encodeURIComponent(name).replaceAll('%2F', '/');
}

const SPAN_UNITS: readonly (readonly [string, bigint])[] = [
  ['d', 86_400_000_000_000n], ['h', 3_600_000_000_000n], ['min', 60_000_000_000n],
  ['s', 1_000_000_000n], ['ms', 1_000_000n], ['us', 1_000n], ['ns', 1n],
];

function writeSpan(span: bigint): string {
  const [unit, size] = SPAN_UNITS.find(([, each]) => span % each === 0n) ?? ['ns', 1n];
  return `${span / size}${unit}`;
}

/** Reads the query of an address; what it does not understand it leaves out. */
export function readLayout(query: string): Layout {
  const pairs = pairsOf(query);
  const value = (key: string): string | undefined => pairs.find(([name]) => name === key)?.[1];
  const plots = pairs.filter(([name]) => name === 'plot').map(([, text]) => readPlot(text)).filter((plot) => plot !== null);
  const kept = plots.slice(0, MAX_PLOTS);
  const single = /^\d+$/.test(value('single') ?? '') ? Number(value('single')) : null;
  return {
    plots: kept,
    window: { spanNs: readSpan(value('span')), endNs: readEnd(value('end')) },
    single: single !== null && single < kept.length ? single : null,
    cursors: readCursors(value('cursors')),
    run: null,
  };
}

/** Tells what an address names and a page does not hold, or is empty. */
export function leftOut(query: string): string {
  const plots = pairsOf(query).filter(([name, text]) => name === 'plot' && readPlot(text) !== null).map(([, text]) => readTraces(text));
  const kept = plots.slice(0, MAX_PLOTS);
  const parts = [
    [plots.length - kept.length, `of ${plots.length} plots`],
    [kept.reduce((sum, { length }) => sum + Math.max(0, length - MAX_TRACES), 0), 'traces of crowded plots'],
  ] as const;
  const told = parts.filter(([count]) => count > 0).map(([count, of]) => `${count} ${of}`);
  return told.length === 0 ? '' : `A page holds ${MAX_PLOTS} plots of ${MAX_TRACES} traces: left out ${told.join(' and ')}`;
}

const pairsOf = (query: string): readonly (readonly [string, string])[] => query.replace(/^\?/, '').split('&').map(splitPair);

function splitPair(pair: string): readonly [string, string] {
  const at = pair.indexOf('=');
  return at < 0 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)];
}

function readEnd(text: string | undefined): bigint | null {
  return text !== undefined && /^\d{1,19}$/.test(text) ? BigInt(text) : null;
}

function readCursors(text: string | undefined): Cursors | null {
  const [a, b, ...more] = (text ?? '').split(/,|%2C/i).map(readEnd);
  return typeof a === 'bigint' && typeof b === 'bigint' && more.length === 0 ? { a, b } : null;
}

function readSpan(text: string | undefined): bigint {
  const found = /^(\d{1,18})([a-z]+)$/.exec(text ?? '');
  const size = SPAN_UNITS.find(([unit]) => unit === found?.[2])?.[1];
  if (found?.[1] === undefined || size === undefined) return DEFAULT_WINDOW.spanNs;
  const span = BigInt(found[1]) * size;
  return span < MIN_SPAN || span > MAX_SPAN ? DEFAULT_WINDOW.spanNs : span;
}

function readPlot(text: string): Plot | null {
  const traces = readTraces(text);
  const [, ...settings] = text.split(';');
  const setting = new Map(settings.map(splitPair));
  const plot = plotOf(traces, PANELS.find((kind) => kind === setting.get('panel')) ?? 'trend');
  if (!isPlot(plot)) return null;
  return {
    ...plot,
    log: hasLog(plot.panel) ? LOGS.find((log) => log === setting.get('log')) ?? plot.log : '',
    columns: readWhole(setting.get('w'), GRID_COLUMNS),
    rows: readWhole(setting.get('h'), MAX_ROWS) ?? 1,
    axis: readAxis(setting.get('y')),
    plane: hasPlane(plot.panel) ? readIndices(setting.get('plane')) : FIRST_PLANE,
  };
}

function readIndices(text: string | undefined): Plane {
  const indices = (text ?? '').split(/,|%2C/i).map((index) => (/^\d{1,10}$/.test(index) ? Number(index) : NaN));
  return readPlane(indices) ?? FIRST_PLANE;
}

function readTraces(text: string): readonly TraceRequest[] {
  const [names = ''] = text.split(';');
  return names.split(',').map(readTrace).filter((trace) => trace !== null);
}

function readTrace(text: string): TraceRequest | null {
  const [stream, channel] = text.split(':').map(unescape);
  return stream === undefined || stream === '' || channel === undefined ? null : { stream, channel };
}

/** A broken escape reads as an empty name, which is then left out. */
function unescape(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

function readWhole(text: string | undefined, most: number): number | null {
  const value = Number(text);
  return text !== undefined && Number.isInteger(value) && value >= 1 && value <= most ? value : null;
}

function readAxis(text: string | undefined): AxisMode {
  const [kind, low, high] = (text ?? '').split(':');
  const range = { low: Number(low || NaN), high: Number(high || NaN) };
  if ((kind !== 'held' && kind !== 'fixed') || !(range.low < range.high)) return AUTO;
  return Number.isFinite(range.low) && Number.isFinite(range.high) ? { kind, range } : AUTO;
}
