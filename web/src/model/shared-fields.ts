/**
 * A layout as the fields of a shared view, and back: what two layouts differ in, and which plot is which.
 *
 * A document may hold more than this page shows: panels of another kind, further keys of a plot, an axis of another kind.
 * Such things are kept wherever the page writes beside them.
 */
import { fields, flag, isFields, list, nanoseconds, number, text, type Fields } from '../wire/json';
import type { TraceRequest } from '../wire/messages';
import { GRID_COLUMNS, hasLog, hasPlane, isPlot, LOGS, MAX_PLOTS, MAX_ROWS, MAX_TRACES, plotOf, sameTrace, type Layout, type LogAxes, type Plot } from './layout';
import { PANELS } from './picture';
import { FIRST_PLANE, readPlane, samePlane, type Plane } from './plane';
import { isRunId, sameShownRun, type ShownRun } from './run-link';
import { AUTO, type AxisMode } from './scale';
import type { Cursors } from './stretch';
import { DEFAULT_WINDOW, MAX_SPAN, MIN_SPAN, type TimeWindow } from './window';

/** A layout whose plots have the names that the document knows them by. */
export interface Shown {
  readonly layout: Layout;
  /** Of the plot at each place; distinct. */
  readonly ids: readonly string[];
}

const plotKey = (id: string): string => `plot/${id}`;
const TREND = 'trend';

/** Returns what a page shows of a document. Plots that are equal to those of `before` are the same objects. */
export function shownOf(document: Fields, before: Shown | null = null): Shown {
  const found = placesOf(document).flatMap((id) => {
    const plot = readPlot(document[plotKey(id)]);
    return plot === null ? [] : [{ id, plot: reused(id, plot, before) }];
  });
  const ids = found.map(({ id }) => id);
  const single = ids.indexOf(text(document, 'single'));
  return {
    ids,
    layout: { plots: found.map(({ plot }) => plot), window: readWindow(document['window']), single: single < 0 ? null : single, cursors: readCursors(document['cursors']), run: readRun(document['run']) },
  };
}

/** Returns the number of panels in a document that this page cannot show. */
export function unshown(document: Fields): number {
  return hiddenIn(document, shownOf(document).ids).length;
}

/** Returns the document's fields with these written; null takes a plot away. */
export function merged(document: Fields, changed: Fields): Fields {
  const all = { ...document, ...changed };
  return Object.fromEntries(Object.entries(all).filter(([name, value]) => value !== null || !name.startsWith('plot/')));
}

/** Returns the fields by which `after` differs from `before`, which `document` shows. */
export function changedFields(before: Shown, after: Shown, document: Fields): Fields {
  const changed: Record<string, unknown> = {};
  const [old, now] = [before.layout, after.layout];
  if (old.window.spanNs !== now.window.spanNs || old.window.endNs !== now.window.endNs) changed['window'] = writeWindow(now.window);
  if (old.cursors?.a !== now.cursors?.a || old.cursors?.b !== now.cursors?.b) changed['cursors'] = writeCursors(now.cursors);
  if (!sameShownRun(old.run, now.run)) changed['run'] = writeRun(now.run);
  if (singleOf(before) !== singleOf(after)) changed['single'] = singleOf(after);
  for (const id of before.ids) if (!after.ids.includes(id)) changed[plotKey(id)] = null;
  after.ids.forEach((id, place) => {
    const plot = now.plots[place];
    const was = old.plots[before.ids.indexOf(id)];
    if (plot !== undefined && (was === undefined || !samePlot(was, plot))) changed[plotKey(id)] = writePlot(document[plotKey(id)], plot);
  });
  if (before.ids.join() !== after.ids.join()) changed['order'] = withHidden(after.ids, document, before.ids);
  return changed;
}

/** Returns all fields of a document that shows this; `document` is what it is a copy of. */
export function fieldsOf(shown: Shown, document: Fields = {}): Fields {
  const before = shownOf(document);
  return merged(document, {
    window: writeWindow(shown.layout.window), cursors: writeCursors(shown.layout.cursors), run: writeRun(shown.layout.run), single: singleOf(shown),
    order: withHidden(shown.ids, document, before.ids), ...changedFields(before, shown, document),
  });
}

/**
 * Returns the names of the plots of `after`, which followed on `before`: a plot that is the same, or equal, keeps its name; of the
 * others each takes, in their order, a name that is free now, or a new one.
 */
export function keepIds(before: Shown, after: Layout, fresh: () => string): readonly string[] {
  if (before.layout.plots === after.plots) return before.ids;
  const free = new Map(before.ids.map((id, place) => [id, before.layout.plots[place]]));
  const kept: (string | null)[] = after.plots.map(() => null);
  const match = (same: (a: Plot, b: Plot) => boolean): void => after.plots.forEach((plot, place) => {
    if (kept[place] !== null) return;
    const [id] = [...free].find(([, old]) => old !== undefined && same(old, plot)) ?? [];
    if (id === undefined) return;
    kept[place] = id;
    free.delete(id);
  });
  match((a, b) => a === b);
  match(samePlot);
  match(() => true);
  return kept.map((id) => id ?? fresh());
}

const LETTERS = '0123456789abcdefghijklmnopqrstuvwxyz';
const ID_LENGTH = 8;

/** Makes a name for a plot that no page makes at the same time; `random` gives numbers from 0 to 1. */
export function newId(random: () => number): string {
  return Array.from({ length: ID_LENGTH }, () => LETTERS[Math.floor(random() * LETTERS.length)] ?? '0').join('');
}

/** Returns an order of one's own on another base: without what others took away from `old`, with what they added. */
export function rebasedOrder(old: readonly string[], theirs: readonly string[], mine: readonly string[]): readonly string[] {
  const kept = mine.filter((id) => theirs.includes(id) || !old.includes(id));
  return withAdded(kept, theirs.filter((id) => !old.includes(id) || kept.includes(id)));
}

/** Returns an order with the names of another one that it lacks, each behind the one that it follows there. */
export function withAdded(order: readonly string[], other: readonly string[]): readonly string[] {
  return insert(order, other, other.filter((id) => !order.includes(id)));
}

/** The names in the document's order, each once. */
export function placesOf(document: Fields): readonly string[] {
  const ids = list(document, 'order').filter((id) => typeof id === 'string');
  return [...new Set(ids)].slice(0, MAX_PLOTS);
}

/** Returns whether two plots show the same. */
export function samePlot(a: Plot, b: Plot): boolean {
  return a === b || (a.panel === b.panel && a.log === b.log && samePlane(a.plane, b.plane) && a.columns === b.columns && a.rows === b.rows && sameAxis(a.axis, b.axis) && sameTraces(a.traces, b.traces));
}

function sameAxis(a: AxisMode, b: AxisMode): boolean {
  if (a.kind === 'auto' || b.kind === 'auto') return a.kind === b.kind;
  return a.kind === b.kind && a.range.low === b.range.low && a.range.high === b.range.high;
}

function sameTraces(a: readonly TraceRequest[], b: readonly TraceRequest[]): boolean {
  return a === b || (a.length === b.length && a.every((trace, i) => { const other = b[i]; return other !== undefined && sameTrace(trace, other); }));
}

function reused(id: string, plot: Plot, before: Shown | null): Plot {
  const old = before?.layout.plots[before.ids.indexOf(id)];
  if (old === undefined) return plot;
  // Equal traces stay the same list, by which a panel knows that its legend holds.
  return samePlot(old, plot) ? old : { ...plot, traces: sameTraces(old.traces, plot.traces) ? old.traces : plot.traces };
}

const singleOf = ({ layout, ids }: Shown): string | null => (layout.single === null ? null : ids[layout.single] ?? null);

/** Panels that have a place in the document, and are not among the plots `ids`. */
function hiddenIn(document: Fields, ids: readonly string[]): readonly string[] {
  return placesOf(document).filter((id) => !ids.includes(id) && isFields(document[plotKey(id)]));
}

function withHidden(ids: readonly string[], document: Fields, shown: readonly string[]): readonly string[] {
  return insert(ids, placesOf(document), hiddenIn(document, shown).filter((id) => !ids.includes(id)));
}

/** Puts each of `added` behind the one that it follows in `order`. */
function insert(ids: readonly string[], order: readonly string[], added: readonly string[]): readonly string[] {
  const all = [...ids];
  for (const id of added) {
    const before = order.slice(0, order.indexOf(id)).reverse().find((each) => all.includes(each));
    all.splice(before === undefined ? 0 : all.indexOf(before) + 1, 0, id);
  }
  return all;
}

function readPlot(value: unknown): Plot | null {
  const panel = isFields(value) ? PANELS.find((kind) => kind === text(value, 'panel', TREND)) : undefined;
  if (!isFields(value) || panel === undefined) return null;
  const plot = plotOf(readTraces(value), panel);
  if (!isPlot(plot)) return null;
  return {
    ...plot, columns: readColumns(value), rows: readRows(value), axis: readAxis(value),
    log: hasLog(panel) ? readLog(value, plot.log) : plot.log, plane: hasPlane(panel) ? readIndices(value) : plot.plane,
  };
}

function readTraces(from: Fields): readonly TraceRequest[] {
  const named = list(from, 'traces').map(fields).map((trace) => ({ stream: text(trace, 'stream'), channel: text(trace, 'channel') }));
  return named.filter(({ stream }) => stream !== '').slice(0, MAX_TRACES);
}

const whole = (value: unknown, most: number): number | null => (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= most ? value : null);
const readColumns = (from: Fields): number | null => whole(from['columns'], GRID_COLUMNS);
const readRows = (from: Fields): number => whole(from['rows'], MAX_ROWS) ?? 1;

function readLog(from: Fields, otherwise: LogAxes): LogAxes {
  return LOGS.find((log) => log === from['log']) ?? otherwise;
}

const readIndices = (from: Fields): Plane => readPlane(list(from, 'plane')) ?? FIRST_PLANE;

function readAxis(from: Fields): AxisMode {
  const axis = fields(from['axis']);
  const kind = text(axis, 'kind');
  const range = { low: number(axis, 'low', NaN), high: number(axis, 'high', NaN) };
  return (kind === 'held' || kind === 'fixed') && range.low < range.high ? { kind, range } : AUTO;
}

/** What this page understands and did not change stays as it was written. */
function writePlot(raw: unknown, plot: Plot): Fields {
  const from = fields(raw);
  const known = isFields(raw);
  return {
    ...from,
    panel: plot.panel,
    ...(plot.log === plotOf(plot.traces, plot.panel).log && from['log'] === undefined ? {} : { log: plot.log }),
    ...(samePlane(readIndices(from), plot.plane) ? {} : { plane: plot.plane }),
    traces: known && sameTraces(readTraces(from), plot.traces) ? from['traces'] : plot.traces.map(({ stream, channel }) => ({ stream, channel })),
    columns: known && readColumns(from) === plot.columns ? from['columns'] ?? null : plot.columns,
    rows: known && readRows(from) === plot.rows ? from['rows'] ?? plot.rows : plot.rows,
    axis: known && sameAxis(readAxis(from), plot.axis) ? from['axis'] ?? writeAxis(plot.axis) : writeAxis(plot.axis),
  };
}

const writeAxis = (axis: AxisMode): Fields => (axis.kind === 'auto' ? { kind: axis.kind } : { kind: axis.kind, ...axis.range });

function readWindow(value: unknown): TimeWindow {
  const from = fields(value);
  const span = nanoseconds(from, 'span_ns');
  const end = from['end_ns'] === null || from['end_ns'] === undefined ? null : nanoseconds(from, 'end_ns');
  return { spanNs: span < MIN_SPAN || span > MAX_SPAN ? DEFAULT_WINDOW.spanNs : span, endNs: end !== null && end >= 0n ? end : null };
}

const writeWindow = ({ spanNs, endNs }: TimeWindow): Fields => ({ span_ns: `${spanNs}`, end_ns: endNs === null ? null : `${endNs}` });

function readRun(value: unknown): ShownRun | null {
  const from = fields(value);
  const id = text(from, 'id');
  if (!isRunId(id)) return null;
  const at = from['at_ns'] === null || from['at_ns'] === undefined ? null : nanoseconds(from, 'at_ns');
  return { choice: { id, at }, relative: flag(from, 'relative'), whole: flag(from, 'whole') };
}

const writeRun = (run: ShownRun | null): Fields | null =>
  (run === null ? null : { id: run.choice.id, at_ns: run.choice.at === null ? null : `${run.choice.at}`, relative: run.relative, whole: run.whole });

function readCursors(value: unknown): Cursors | null {
  if (!isFields(value)) return null;
  const [a, b] = [nanoseconds(value, 'a_ns'), nanoseconds(value, 'b_ns')];
  return a >= 0n && b >= 0n ? { a, b } : null;
}

const writeCursors = (cursors: Cursors | null): Fields | null => (cursors === null ? null : { a_ns: `${cursors.a}`, b_ns: `${cursors.b}` });
