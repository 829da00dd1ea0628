/**
 * One plot: header, chart, cursor, and the translation of what happens on it into time.
 *
 * Draws only on request and only if something has changed. The chart itself is `chart.ts`.
 */
import { Chart, type ChartAxis, type Scene } from '../chart';
import { traceColours } from '../model/colour';
import { bandAt, gapsText, plotGaps, type Band, type PlotGap } from '../model/gaps';
import type { Plot } from '../model/layout';
import type { Limit } from '../model/limits';
import { decimalsFor, displayUnit, inUnit } from '../model/quantity';
import { nextAuto, type AutoRange, type AxisMode, type Range } from '../model/scale';
import { pictureMarks } from '../model/picture-marks';
import { secondsText } from '../model/run-marks';
import { clock, full, pixelDigits } from '../model/time';
import { isShown, stretchOf, type Cursors } from '../model/stretch';
import { axesOf, thinning, titlesOf } from '../model/titles';
import { enclose, extremes, meanAt, valuesAt, type Extremes } from '../model/trace';
import type { TimeWindow } from '../model/window';
import type { Shown } from '../paint/area';
import { STRIP_PX } from '../paint/gaps';
import type { PlotPicture } from '../paint/sheet';
import type { ViewFrame } from '../wire/frame';
import { AxisControl } from './axis-control';
import { CursorLines } from './cursor-lines';
import { el, iconButton, setAttribute, setText } from './dom';
import { listenGestures } from './gestures';
import type { Measured } from './measure-panel';
import { Panel, UNIT_RANGE, type PlotListener, type Shared } from './panel';
import { Readouts, type Readout } from './readouts';
import { RunMarks } from './run-marks';
import { SteeringMarks } from './steering-marks';

/** Maximum distance of the pointer from a gap. */
const REACH_PX = 4;
/** More traces than this are not listed at the cursor, and are counted in the header. */
const CURSOR_TRACES = 8;

/** A plot on the page. */
export class PlotPanel extends Panel {
  readonly #readouts = new Readouts();
  readonly #axisControl: AxisControl;
  readonly #units = [el('span', { class: 'axis-unit' }), el('span', { class: 'axis-unit axis-unit-right' })] as const;
  readonly #line = el('div', { class: 'cursor-line', hidden: true });
  readonly #marks = new SteeringMarks();
  readonly #runs = new RunMarks();
  readonly #tag = el('div', { class: 'cursor-tag', hidden: true });
  readonly #chart: Chart;
  readonly #lines: CursorLines;
  #unitsOfTraces: readonly string[] = [];
  #frame: ViewFrame | null = null;
  #gaps: readonly PlotGap[] = [];
  #auto: readonly (AutoRange | null)[] = [null, null];
  #axes: readonly ChartAxis[] = [];
  #shown: Shown = { from: 0n, spanNs: 1n };

  constructor(view: number, plot: Plot, listener: PlotListener, shared: () => Shared) {
    super(view, plot, listener, shared, { bodyClass: 'plot-body', alone: 'm, double click' });
    this.#axisControl = new AxisControl(() => this.leftRange, listener.onAxis);
    this.tools.before(this.#readouts.element);
    this.tools.prepend(this.#axisControl.element,
      iconButton('cursors', 'Two cursors (c)', () => listener.onCursors()),
      iconButton('export', 'Export (e)', () => listener.onExport()));
    this.#chart = new Chart(this.body, { width: 300, height: 150 }, shared().palette.chart);
    this.#lines = new CursorLines(this.body, (name, share) => listener.onDragCursor(name, share));
    this.body.append(...this.#units, this.#runs.element, this.#marks.element, this.#line, this.#tag);
    listenGestures(this.body, () => this.#chart.box(), {
      onHover: (at) => this.#onHover(at),
      onPan: (dx) => listener.onPan(dx / this.widthPx),
      onZoom: (factor, share) => listener.onZoom(factor, share),
      onDoubleTap: () => listener.onSingle(),
    });
    this.setPlot(plot, []);
  }

  override get widthPx(): number {
    return Math.max(1, Math.round(this.#chart.box().width));
  }

  override get gaps(): readonly PlotGap[] {
    return this.#gaps;
  }

  override get shown(): Shown {
    return this.#shown;
  }

  override get leftRange(): Range {
    return this.#axes[0]?.range ?? UNIT_RANGE;
  }

  override setPlot(plot: Plot, units: readonly string[]): void {
    const sameTraces = this.plot.traces === plot.traces && this.#readouts.element.childElementCount > 0;
    if (sameTraces && this.plot === plot && units.join('\n') === this.#unitsOfTraces.join('\n')) return;
    this.plot = plot;
    this.#unitsOfTraces = units;
    this.#axisControl.show(plot.axis);
    if (!sameTraces) this.#retitle();
    this.invalidate();
  }

  /** Takes a new frame; drawn at the next {@link render}. */
  setFrame(frame: ViewFrame): void {
    this.#frame = frame;
    this.#gaps = plotGaps(frame, this.plot.traces);
    this.dirty = true;
  }

  override retheme(): void {
    this.#chart.setTheme(this.shared().palette.chart);
    this.#colour();
    this.dirty = true;
  }

  override fit(): boolean {
    const room = this.room();
    if (room === null) return false;
    const before = this.widthPx;
    this.#chart.resize(room);
    this.markCompact(room.width);
    this.dirty = true;
    return this.widthPx !== before;
  }

  override render(nowMs: number): boolean {
    if (!this.dirty) return false;
    this.dirty = false;
    const { window, zone, palette, edge, marks, runs, limits } = this.shared();
    this.#shown = this.#shownNow(window, edge);
    this.#axes = this.#axesNow(nowMs);
    const colours = traceColours(this.plot.traces);
    const { axis } = axesOf(this.#unitsOfTraces);
    const states = new Map(this.#frame?.traces.map((trace) => [trace.index, trace.state]));
    const pens = this.plot.traces.map((_, i) => ({
      colour: palette.traces[colours[i] ?? 0] ?? '',
      widthPx: palette.chart.linePx,
      // What does not go on fades where time goes on; the past is as good as it was.
      opacity: states.get(i) === 'ok' || window.endNs !== null ? 1 : 0.45,
      axis: axis[i] ?? 0,
    }));
    const scene: Scene = { frame: this.#frame, shown: this.#shown, zone, zero: runs.zero, axes: this.#axes, pens, gaps: this.#gaps, limits: this.#limits(limits, axis) };
    this.#chart.draw(scene);
    this.#marks.place(marks, this.#shown, this.#chart.box());
    this.#runs.place(runs.marks, this.#shown, this.#chart.box(), zone);
    this.#write(axis, nowMs);
    return true;
  }

  override showCursor(share: number | null): void {
    this.#line.hidden = share === null;
    this.#tag.hidden = share === null;
    if (share === null) return;
    const box = this.#chart.box();
    const x = share * box.width;
    const at = this.#shown.from + BigInt(Math.round(share * Number(this.#shown.spanNs)));
    this.#line.style.transform = `translate(${box.left + x}px, ${box.top}px)`;
    this.#line.style.height = `${box.height}px`;
    this.#tag.replaceChildren(...this.#cursorRows(at));
    const left = x > box.width / 2;
    this.#tag.style.transform = `translate(${box.left + x + (left ? -8 : 8)}px, ${box.top + 6}px)${left ? ' translateX(-100%)' : ''}`;
  }

  override showCursors(cursors: Cursors | null): void {
    this.#lines.show(cursors, this.#shown, this.#chart.box());
  }

  override measured(cursors: Cursors): readonly Measured[] {
    const { palette } = this.shared();
    const colours = traceColours(this.plot.traces);
    const { axis } = axesOf(this.#unitsOfTraces);
    const { path, labels } = titlesOf(this.plot.traces);
    const frame = this.#frame;
    return this.plot.traces.map((request, i) => {
      const trace = frame?.traces.find(({ index }) => index === i);
      const { low, high } = this.#axes[axis[i] ?? 0]?.range ?? UNIT_RANGE;
      const one = new Set(this.plot.traces.map(({ stream }) => stream)).size === 1;
      return {
        path: one ? `${request.stream} ` : path,
        label: labels[i] ?? request.channel,
        colour: palette.traces[colours[i] ?? 0] ?? '',
        display: this.#chart.scale(Math.max(0, axis[i] ?? 0)).value,
        axisSpan: high - low,
        stretch: frame !== null && trace !== undefined && isShown(frame, cursors) ? stretchOf(frame, trace, cursors) : null,
      };
    });
  }

  override gapPlace(gap: PlotGap): { readonly x: number; readonly y: number } {
    const box = this.#chart.box();
    const outer = this.body.getBoundingClientRect();
    const middle = Number((gap.from + gap.to) / 2n - this.#shown.from) / Number(this.#shown.spanNs);
    const share = Math.max(0, Math.min(1, middle));
    return { x: outer.left + box.left + share * box.width, y: outer.top + box.top + box.height * 0.4 };
  }

  override picture(): PlotPicture | null {
    const canvas = this.body.querySelector('canvas');
    if (canvas === null) return null;
    const { path, name, labels } = titlesOf(this.plot.traces);
    const { palette, runs, marks } = this.shared();
    const colours = traceColours(this.plot.traces);
    const data = this.#chart.box();
    const { left, top, width, height } = this.body.getBoundingClientRect();
    return {
      box: { left, top, width, height }, canvas, title: `${path}${name}`,
      note: [this.note.textContent ?? '', gapsText(this.#gaps)].filter((part) => part !== '').join(' · '),
      units: this.#axes.map((_, i) => this.#chart.scale(i).head),
      legend: labels.map((label, i) => ({ label, colour: palette.traces[colours[i] ?? 0] ?? '' })),
      marks: pictureMarks(runs.marks, marks, this.#shown, data.width), data,
    };
  }

  override destroy(): void {
    this.#chart.destroy();
    super.destroy();
  }

  #retitle(): void {
    const { path, name, labels } = titlesOf(this.plot.traces);
    this.title.replaceChildren(el('span', { class: 'plot-path', text: path }), name);
    this.element.setAttribute('aria-label', `Plot of ${path}${name}`);
    this.title.title = [...new Set(this.plot.traces.map((trace) => trace.stream))].join('\n');
    this.#readouts.reset(labels, (index) => this.listener.onRemoveTrace(index));
    this.#auto = [null, null];
    // A frame of other traces would be drawn under the wrong names.
    this.#frame = null;
    this.#gaps = [];
    this.#colour();
  }

  #colour(): void {
    const { palette } = this.shared();
    this.#readouts.colour(traceColours(this.plot.traces).map((colour) => palette.traces[colour] ?? ''));
  }

  /** While following, the frame gives the right edge; otherwise the window does, even before its frame has arrived. */
  #shownNow(window: TimeWindow, edge: bigint): Shown {
    const frame = this.#frame;
    const live = frame !== null && frame.live ? frame.from + frame.column * BigInt(frame.columnCount) : edge;
    return { from: (window.endNs ?? live) - window.spanNs, spanNs: window.spanNs };
  }

  #axesNow(nowMs: number): readonly ChartAxis[] {
    const { units, axis } = axesOf(this.#unitsOfTraces);
    const { axis: mode } = this.plot;
    this.#auto = this.#auto.map((last, i) => (mode.kind === 'auto' || last === null ? this.#nextAuto(last, i, axis, nowMs) : last));
    const count = Math.max(1, units.length);
    return Array.from({ length: count }, (_, i) => ({ unit: units[i] ?? '', range: this.#rangeOf(i, mode) }));
  }

  /** Limits of the traces of each axis. */
  #limits(all: ReadonlyMap<string, readonly Limit[]>, axis: readonly number[]): readonly (readonly Limit[])[] {
    const of = (index: number): readonly Limit[] => this.plot.traces.flatMap(({ stream, channel }, i) => (axis[i] === index ? all.get(`${stream}:${channel}`) ?? [] : []));
    return this.#axes.map((_, index) => of(index));
  }

  #nextAuto(last: AutoRange | null, index: number, axis: readonly number[], nowMs: number): AutoRange | null {
    let all: Extremes = { low: NaN, high: NaN };
    for (const trace of this.#frame?.traces ?? []) {
      if ((axis[trace.index] ?? 0) === index) all = enclose(all, extremes(trace));
    }
    return Number.isNaN(all.low) ? last : nextAuto(last, all.low, all.high, nowMs);
  }

  #rangeOf(index: number, mode: AxisMode): Range {
    if (index === 0 && mode.kind !== 'auto') return mode.range;
    return this.#auto[index]?.range ?? UNIT_RANGE;
  }

  #write(axis: readonly number[], nowMs: number): void {
    const frame = this.#frame;
    this.#units.forEach((unit, i) => setText(unit, i < this.#axes.length ? this.#chart.scale(i).head : ''));
    setAttribute(this.element, 'data-axes', String(this.#axes.length));
    if (frame === null) return;
    const densest = Math.max(0, ...frame.traces.map((trace) => trace.samplesPerColumn));
    const crowd = this.plot.traces.length > CURSOR_TRACES ? `${this.plot.traces.length} traces` : '';
    const empty = frame.traces.every((trace) => Number.isNaN(extremes(trace).low));
    const note = [crowd, empty ? 'no samples in this window' : thinning(densest, frame.slow)].filter((part) => part !== '').join(' · ');
    setText(this.note, note);
    setAttribute(this.note, 'title', note === '' ? null : note);
    const readouts = this.plot.traces.map((_, i) => {
      const used = axis[i] ?? 0;
      const { value: display, head } = this.#chart.scale(used);
      const range = this.#axes[used]?.range;
      if (range === undefined || empty) return alone(frame.traces.find(({ index }) => index === i)?.newestValue ?? NaN, this.#unitsOfTraces[i] ?? '', used >= 0);
      return { display, range, unitOnAxis: head === display.unit, drawn: used >= 0 };
    });
    this.#readouts.write(frame.traces, readouts, nowMs);
  }

  #cursorRows(at: bigint): readonly Node[] {
    const { zone, palette, runs: { zero } } = this.shared();
    const digits = pixelDigits(this.#shown.spanNs, this.widthPx);
    const since = zero === null ? '' : `t = ${secondsText(at - zero, digits)} · `;
    const head = el('div', { class: 'cursor-time', text: `${since}${clock(at, zone, digits)}`, title: full(at, zone) });
    const colours = traceColours(this.plot.traces);
    const { axis } = axesOf(this.#unitsOfTraces);
    const rows = (this.#frame?.traces ?? []).slice(0, CURSOR_TRACES).map((trace) => {
      const text = this.#valueText(trace.index, axis[trace.index] ?? 0, at);
      const row = el('div', { class: 'cursor-value', text });
      row.style.setProperty('--trace', palette.traces[colours[trace.index] ?? 0] ?? '');
      return row;
    });
    const further = (this.#frame?.traces.length ?? 0) - rows.length;
    return [head, ...rows, ...(further > 0 ? [el('div', { class: 'cursor-time', text: `and ${further} more` })] : [])];
  }

  #valueText(index: number, axis: number, at: bigint): string {
    const trace = this.#frame?.traces.find((each) => each.index === index);
    const range = this.#axes[axis]?.range;
    if (this.#frame === null || trace === undefined || range === undefined) return '';
    const { low, high } = valuesAt(this.#frame, trace, at);
    if (Number.isNaN(low)) return 'nothing here';
    const display = this.#chart.scale(axis).value;
    const decimals = decimalsFor(range.high - range.low, display, 1000);
    const [lower, upper] = [inUnit(low, display, decimals), inUnit(high, display, decimals)];
    const mean = meanAt(this.#frame, trace, at);
    const about = Number.isNaN(mean) ? '' : `, mean ${inUnit(mean, display, decimals)}`;
    return lower === upper ? `${upper} ${display.unit}` : `${lower} … ${upper} ${display.unit}${about}`;
  }

  #onHover(at: { readonly x: number; readonly y: number } | null): void {
    const box = this.#chart.box();
    const inside = at !== null && at.x >= 0 && at.x <= box.width && at.y >= -4 && at.y <= box.height + 4 * STRIP_PX;
    if (!inside) {
      this.listener.onCursor(null);
      this.listener.onGap(null, { x: 0, y: 0 });
      return;
    }
    this.listener.onCursor(at.x / Math.max(1, box.width));
    const band: Band | null = bandAt(this.#chart.bands, at.x, REACH_PX);
    const outer = this.body.getBoundingClientRect();
    this.listener.onGap(band?.gap ?? null, { x: outer.left + box.left + at.x, y: outer.top + box.top + at.y });
  }
}

/** A value without others around it is written in its own unit. */
function alone(value: number, unit: string, drawn: boolean): Readout {
  const size = Math.abs(value);
  return { display: displayUnit(size, unit), range: { low: 0, high: size }, unitOnAxis: false, drawn };
}
