/**
 * A plot of whole samples: the newest one in the window as an image or as a spectrum, or all of them as a waterfall; with
 * a place that is looked at.
 *
 * Draws only on request and only if something has changed. What is painted is in `paint/image.ts`, `paint/spectrum.ts` and
 * `paint/waterfall.ts`.
 */
import { traceColours } from '../model/colour';
import type { LogAxes, Plot } from '../model/layout';
import { binHz, channelOf, decadeRange, elementsText, peakOf, placeAt, shareOf, valueAt, widened, within, type Box, type Place } from '../model/picture';
import { choiceExtents, indicesOf, isThere, keptPlane, missingPlaneText, numberOf, planeExtents, planeText, type Plane } from '../model/plane';
import { decimalsFor, displayUnit, duration, inUnit, short, significant } from '../model/quantity';
import { nextAuto, type AutoRange, type Range } from '../model/scale';
import { pictureMarks } from '../model/picture-marks';
import { secondsText } from '../model/run-marks';
import { clock, full } from '../model/time';
import { titlesOf } from '../model/titles';
import { DECIBELS, decibels, finiteEnds, Waterfall, type Cell } from '../model/waterfall';
import type { TimeWindow } from '../model/window';
import { ImagePainter } from '../paint/image';
import type { PlotPicture } from '../paint/sheet';
import { paintSpectrum, spectrumBox } from '../paint/spectrum';
import { paintWaterfall, waterfallBox } from '../paint/waterfall';
import { MAX_COLUMNS } from '../wire/frame';
import type { Stream, TraceRequest } from '../wire/messages';
import { MAX_PIXELS, type PictureFrame, type PictureRequest, type Sample } from '../wire/picture';
import { type WaterfallFrame, type WaterfallRequest } from '../wire/waterfall';
import { AxisControl } from './axis-control';
import { el, setAttribute, setText } from './dom';
import { Panel, UNIT_RANGE, type PlotListener, type Shared } from './panel';
import { PlaneControl } from './plane-control';
import { RunMarks } from './run-marks';

/** Receiver of the events: those of a plot, a change of its logarithmic axes, the choice of a plane. */
export interface SamplePanelListener extends PlotListener {
  onLog(log: LogAxes): void;
  onPlane(plane: Plane): void;
}

/** In place of a plot's first trace. */
const NOTHING: TraceRequest = { stream: '', channel: '' };
/** Lines of one spectrum. */
const MOST_LINES = 8;
/** Bins of a waterfall at least, however low it is. */
const LEAST_BINS = 64;
/** Shares of a waterfall's width that one press of an arrow key moves by. */
const STEPS = 1_200;
/** One press of an arrow key with shift moves by so many pixels of the sample. */
const STRIDE = 10;

/** A plot of whole samples. */
export class SamplePanel extends Panel {
  declare readonly listener: SamplePanelListener;
  readonly #canvas = el('canvas', { class: 'sample-canvas', tabindex: '0', role: 'img' });
  readonly #value = el('div', { class: 'sample-value' });
  readonly #empty = el('p', { class: 'sample-empty', hidden: true });
  readonly #axisControl: AxisControl;
  readonly #planes = new PlaneControl((indices) => this.listener.onPlane(keptPlane(indices)));
  readonly #missingText = el('span');
  readonly #keep = el('button', { type: 'button', class: 'word-button', on: { click: () => this.#keepShown() } });
  readonly #missing = el('p', { class: 'plane-missing', role: 'status', hidden: true }, this.#missingText, this.#keep);
  #words = '';
  /** Number of the plane that was drawn last. */
  #drawnPlane = 0;
  readonly #image = new ImagePainter();
  readonly #runs = new RunMarks();
  readonly #small = document.createElement('canvas');
  #waterfall = new Waterfall();
  #frame: PictureFrame | null = null;
  #auto: AutoRange | null = null;
  #range = UNIT_RANGE;
  #box: Box = { x: 0, y: 0, width: 1, height: 1 };
  /** The place looked at as shares of height and width, so that it stays where it is when the sample is reduced otherwise. */
  #at: { readonly down: number; readonly across: number } = { down: 0.5, across: 0.5 };
  #pointed = false;

  constructor(view: number, plot: Plot, listener: SamplePanelListener, shared: () => Shared, readonly catalogue: () => ReadonlyMap<string, Stream>) {
    super(view, plot, listener, shared, { bodyClass: 'plot-body sample-body', alone: 'm, double click' });
    this.#axisControl = new AxisControl(() => this.#range, listener.onAxis, plot.panel === 'spectrum' ? 'y' : 'colours');
    this.tools.before(el('div', { class: 'sample-side' }, this.#planes.element, this.#value));
    this.body.before(this.#missing);
    this.tools.prepend(this.#axisControl.element, ...(plot.panel === 'spectrum' ? [this.#logButton('x'), this.#logButton('y')] : plot.panel === 'waterfall' ? [this.#logButton('y', 'dB')] : []));
    this.body.append(this.#canvas, this.#runs.element, this.#empty);
    this.#listen();
    this.#axisControl.show(plot.axis);
    this.#retitle();
  }

  override get leftRange(): Range {
    return this.#range;
  }

  /** Returns what to ask for: no more pixels than the screen has for them. */
  request({ endNs }: TimeWindow): PictureRequest {
    const [trace = NOTHING] = this.plot.traces;
    const isImage = this.plot.panel === 'image';
    const heightPx = isImage ? pixels(this.body.clientHeight) : MOST_LINES;
    const widthPx = Math.min(pixels(this.body.clientWidth), Math.floor(MAX_PIXELS / heightPx));
    return { view: this.view, trace, plane: this.plot.plane, widthPx, heightPx, endNs, reduction: isImage ? 'mean' : 'max' };
  }

  /** Returns what to ask for as a waterfall: a column for each pixel, and no more bins than there are pixels twice. */
  waterfallRequest({ spanNs, endNs }: TimeWindow): WaterfallRequest {
    const [trace = NOTHING] = this.plot.traces;
    const bins = Math.max(LEAST_BINS, pixels(2 * this.body.clientHeight));
    return { view: this.view, trace, plane: this.plot.plane, columns: pixels(this.body.clientWidth), bins, spanNs, endNs };
  }

  override setPlot(plot: Plot, _units: readonly string[]): void {
    const sameTraces = this.plot.traces === plot.traces;
    if (sameTraces && this.plot === plot) return this.#showPlane();
    this.plot = plot;
    this.#axisControl.show(plot.axis);
    this.#showPlane();
    if (!sameTraces) this.#retitle();
    this.invalidate();
  }

  /** Goes to another plane, if there is one. */
  stepPlane(by: number): void {
    this.#planes.step(by);
  }

  /** Takes a new frame; drawn at the next {@link render}. */
  setPicture(frame: PictureFrame): void {
    this.#frame = frame;
    this.dirty = true;
  }

  /** Takes new columns of a waterfall; returns whether they fit those before them. */
  setWaterfall(frame: WaterfallFrame): boolean {
    this.dirty = true;
    return this.#waterfall.take(frame);
  }

  override fit(): boolean {
    const room = this.room();
    if (room === null) return false;
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(room.width * ratio), Math.round(room.height * ratio)];
    this.markCompact(room.width);
    if (this.#canvas.width === wide && this.#canvas.height === high) return false;
    this.#canvas.width = wide;
    this.#canvas.height = high;
    this.dirty = true;
    return true;
  }

  override render(nowMs: number): boolean {
    if (!this.dirty) return false;
    this.dirty = false;
    const pen = this.#canvas.getContext('2d');
    const sample = this.#frame?.sample ?? null;
    if (pen === null) return false;
    this.#showPlane();
    const ratio = window.devicePixelRatio || 1;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.#canvas.width, this.#canvas.height);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (this.plot.panel === 'waterfall') {
      if (this.#writeWaterfall()) this.#paintWaterfall(pen, nowMs);
      return true;
    }
    this.#write(sample);
    if (sample === null) return true;
    if (this.plot.panel === 'image') this.#paintImage(pen, sample, nowMs);
    else this.#paintSpectrum(pen, sample, nowMs);
    return true;
  }

  /** The sample as it was drawn last, for a picture; its canvas has axes and units of its own. */
  override picture(): PlotPicture | null {
    const { path, name, labels } = titlesOf(this.plot.traces);
    const { left, top, width, height } = this.body.getBoundingClientRect();
    const title = `${path}${name} ${labels[0] ?? ''}`.trim();
    const data = this.#box;
    const marks = this.plot.panel === 'waterfall' ? pictureMarks(this.shared().runs.marks, [], this.shown, data.width) : [];
    return { box: { left, top, width, height }, canvas: this.#canvas, title, note: this.note.textContent ?? '', units: [], legend: [], marks, data: { left: data.x, top: data.y, width: data.width, height: data.height } };
  }

  #logButton(axis: 'x' | 'y', text = `log ${axis}`): HTMLElement {
    const title = text === 'dB' ? 'decibels, or the values themselves' : `${axis}-axis linear or logarithmic`;
    const button = el('button', { type: 'button', class: 'word-button', title, text });
    button.addEventListener('click', () => {
      const has = (each: 'x' | 'y'): boolean => this.plot.log.includes(each) !== (each === axis);
      this.#auto = null;
      this.listener.onLog(has('x') ? (has('y') ? 'xy' : 'x') : has('y') ? 'y' : '');
      setAttribute(button, 'aria-pressed', String(this.plot.log.includes(axis)));
    });
    setAttribute(button, 'aria-pressed', String(this.plot.log.includes(axis)));
    return button;
  }

  #listen(): void {
    const canvas = this.#canvas;
    const look = (event: PointerEvent): void => {
      const { left, top } = canvas.getBoundingClientRect();
      this.#lookAt(event.clientX - left, event.clientY - top);
    };
    canvas.addEventListener('pointermove', look);
    canvas.addEventListener('pointerdown', look);
    canvas.addEventListener('dblclick', () => this.listener.onSingle());
    canvas.addEventListener('keydown', (event) => {
      const by = event.shiftKey ? STRIDE : 1;
      const step = { ArrowLeft: [0, -by], ArrowRight: [0, by], ArrowUp: [-by, 0], ArrowDown: [by, 0] }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      this.#move(step[0] ?? 0, step[1] ?? 0);
    });
  }

  #lookAt(x: number, y: number): void {
    if (this.plot.panel === 'waterfall') return this.#lookAtShare((x - this.#box.x) / this.#box.width, (y - this.#box.y) / this.#box.height);
    const sample = this.#frame?.sample;
    if (sample === null || sample === undefined) return;
    const place = this.plot.panel === 'image' ? placeAt(sample, this.#image.box, x, y) : this.#nearest(sample, x);
    if (place !== null) this.#set(sample, place);
  }

  /** The pixel of a spectrum that is nearest to a point. */
  #nearest(sample: Sample, x: number): Place | null {
    const { range, position, log } = this.#frequencies(sample);
    const away = (column: number): number => Math.abs(this.#box.x + shareOf(position(column), range, log) * this.#box.width - x);
    let best: number | null = null;
    for (let column = 0; column < sample.columns; column += 1) if (Number.isFinite(away(column)) && (best === null || away(column) < away(best))) best = column;
    return best === null ? null : { row: 0, column: best };
  }

  #move(down: number, across: number): void {
    if (this.plot.panel === 'waterfall') {
      const { down: at, across: along } = this.#at;
      return this.#lookAtShare(along + across / STEPS, at + down / Math.max(1, this.#waterfall.bins));
    }
    const sample = this.#frame?.sample;
    if (sample === null || sample === undefined) return;
    const place = this.#place(sample);
    this.#set(sample, within(sample, { row: place.row + down, column: place.column + across }));
  }

  #set(sample: Sample, place: Place): void {
    this.#lookAtShare((place.column + 0.5) / sample.columns, (place.row + 0.5) / sample.rows);
  }

  #lookAtShare(across: number, down: number): void {
    const share = (value: number): number => Math.max(0, Math.min(0.999_999, value));
    this.#at = { down: share(down), across: share(across) };
    this.#pointed = true;
    this.dirty = true;
    this.listener.onCursor(null);
  }

  #place(sample: Sample): Place {
    return within(sample, { row: Math.floor(this.#at.down * sample.rows), column: Math.floor(this.#at.across * sample.columns) });
  }

  #retitle(): void {
    const { path, name, labels } = titlesOf(this.plot.traces);
    this.title.replaceChildren(el('span', { class: 'plot-path', text: path }), `${name} ${labels[0] ?? ''}`);
    const words = `${this.plot.panel.replace(/^./, (first) => first.toUpperCase())} of ${path}${name}`;
    this.element.setAttribute('aria-label', words);
    this.#words = words;
    this.#frame = null;
    this.#waterfall = new Waterfall();
    this.#auto = null;
  }

  /** What the frame shown says of planes; null before the first one. */
  #planesShown(): { readonly planes: number; readonly plane: number; readonly isNearest: boolean } | null {
    const of = this.plot.panel === 'waterfall' ? this.#waterfall.frame : this.#frame?.sample ?? null;
    return of === null || of.planes === 0 ? null : of;
  }

  #extents(): readonly number[] {
    return choiceExtents(planeExtents(channelOf(this.plot.traces[0], this.catalogue())), this.#planesShown()?.planes ?? null);
  }

  #planeNote({ planes, plane }: { readonly planes: number; readonly plane: number }): string {
    return planes > 1 ? `plane ${planeText(indicesOf(plane, this.#extents()))}` : '';
  }

  /** Shows the choice of a plane, and whether the one asked for is there. */
  #showPlane(): void {
    const [extents, shown, { plane }] = [this.#extents(), this.#planesShown(), this.plot];
    const isMissing = shown !== null && shown.isNearest && !isThere(plane, extents);
    this.#planes.show(isMissing ? shown.plane : numberOf(plane, extents), extents);
    this.#missing.hidden = !isMissing;
    setText(this.#missingText, isMissing ? missingPlaneText(plane, shown.plane, extents) : '');
    setText(this.#keep, isMissing ? `Keep ${shown.planes > 1 ? planeText(indicesOf(shown.plane, extents)) : 'it'}` : '');
    const named = shown === null ? '' : this.#planeNote(shown);
    setAttribute(this.#canvas, 'aria-label', `${[this.#words, named].filter((words) => words !== '').join(', ')}; arrow keys move the place whose value is shown`);
    if (shown === null || shown.plane === this.#drawnPlane) return;
    // Another plane may have other values.
    this.#drawnPlane = shown.plane;
    this.#auto = null;
  }

  #keepShown(): void {
    const shown = this.#planesShown();
    if (shown !== null) this.listener.onPlane(keptPlane(indicesOf(shown.plane, this.#extents())));
  }

  #unit(): string {
    return channelOf(this.plot.traces[0], this.catalogue())?.unit ?? '';
  }

  /** The x-axis of a spectrum: Hz for a stream that says so, else the index of the element. */
  #frequencies({ size, block }: Pick<Sample, 'size' | 'block'>): { range: Range; position: (column: number) => number; log: boolean; unit: string } {
    const bin = binHz(this.catalogue().get(this.plot.traces[0]?.stream ?? ''));
    const width = bin ?? 1;
    const log = this.plot.panel === 'spectrum' && this.plot.log.includes('x');
    const last = Math.max(1, size[1] - 1) * width;
    const position = (column: number): number => Math.min(size[1] - 1, (column + 0.5) * block[1] - 0.5) * width;
    // The bin at 0 Hz has no place on a logarithmic axis.
    return { range: { low: log ? Math.min(width, last / 10) : 0, high: last }, position, log, unit: bin === null ? '' : 'Hz' };
  }

  #rangeOf(values: ArrayLike<number>, { low, high }: Sample, log: boolean, nowMs: number): Range {
    const { axis } = this.plot;
    if (axis.kind !== 'auto' && (!log || axis.range.low > 0)) return axis.range;
    const ends = log ? decadeRange(values) : { low, high };
    const rounded = log ? (a: number, b: number): Range => ({ low: a, high: b }) : this.plot.panel === 'image' ? widened : undefined;
    if (!Number.isFinite(ends.low)) return this.#auto?.range ?? UNIT_RANGE;
    const last = log && this.#auto !== null && this.#auto.range.low <= 0 ? null : this.#auto;
    this.#auto = nextAuto(last, ends.low, ends.high, nowMs, rounded);
    return this.#auto.range;
  }

  #paintImage(pen: CanvasRenderingContext2D, sample: Sample, nowMs: number): void {
    const { palette } = this.shared();
    this.#range = this.#rangeOf(sample.values, sample, false, nowMs);
    const place = this.#place(sample);
    const scene = { sample, range: this.#range, unit: this.#unit(), place, theme: palette.chart, pen: palette.traces[this.#colour()] ?? palette.chart.ink };
    this.#image.paint(pen, this.body.clientWidth, this.body.clientHeight, scene);
    const [row, column] = [elementsText(place.row, sample.block[0], sample.size[0]), elementsText(place.column, sample.block[1], sample.size[1])];
    setText(this.#value, `row ${row}, column ${column}: ${this.#valueText(valueAt(sample, place))}`);
  }

  #paintSpectrum(pen: CanvasRenderingContext2D, sample: Sample, nowMs: number): void {
    const { palette } = this.shared();
    const { range: x, position, log: logX, unit: unitX } = this.#frequencies(sample);
    const logY = this.plot.log.includes('y');
    this.#range = this.#rangeOf(sample.values, sample, logY, nowMs);
    this.#box = spectrumBox(this.body.clientWidth, this.body.clientHeight, palette.chart);
    const lines = Math.min(MOST_LINES, sample.rows);
    const first = this.#colour();
    const pens = Array.from({ length: lines }, (_, k) => palette.traces[(first + k) % palette.traces.length] ?? palette.chart.ink);
    const at = peakOf(sample.values);
    const peak = at === null ? null : { row: Math.floor(at / sample.columns), column: at % sample.columns };
    const column = this.#pointed ? this.#place(sample).column : null;
    paintSpectrum(pen, this.#box, { sample, x, y: this.#range, logX, logY, unitX, unitY: this.#unit(), position, column, peak, theme: palette.chart, pens });
    const where = (pixel: number): string => {
      const display = displayUnit(position(pixel), unitX);
      const text = unitX === '' ? elementsText(pixel, sample.block[1], sample.size[1]) : `${inUnit(position(pixel), display, decimalsFor(x.high - x.low, display, 1000))} ${display.unit}`;
      return unitX === '' ? `element ${text}` : text;
    };
    const parts = peak === null ? ['no numbers'] : [`peak ${this.#valueText(sample.values[at ?? 0] ?? NaN)} at ${where(peak.column)}`];
    if (column !== null) parts.push(`${where(column)}: ${this.#valueText(valueAt(sample, { row: 0, column }))}`);
    setText(this.#value, parts.join(' · '));
  }

  #paintWaterfall(pen: CanvasRenderingContext2D, nowMs: number): void {
    const { palette, zone, runs } = this.shared();
    const { clientWidth: width, clientHeight: height } = this.body;
    const { bins, count, stretch } = this.#waterfall;
    const { elements = 1, block = 1 } = this.#waterfall.frame ?? {};
    this.#box = waterfallBox(width, height, palette.chart);
    const rate = this.#rate();
    const values = this.#waterfall.picture(rate);
    const log = this.plot.log.includes('y');
    if (log) decibels(values);
    const ends = finiteEnds(values, log ? DECIBELS : Infinity);
    const { axis } = this.plot;
    // Before the first number there is no range to start from.
    if (Number.isFinite(ends.low)) this.#auto = nextAuto(this.#auto, ends.low, ends.high, nowMs, widened);
    this.#range = axis.kind === 'auto' ? this.#auto?.range ?? UNIT_RANGE : axis.range;
    const { range: y, position, unit: unitY } = this.#frequencies({ size: [1, elements], block: [1, block] });
    const unit = log ? `dB ${this.#unit()}`.trim() : this.#unit();
    const [seen, place] = [this.shown, this.#pointed ? this.#at : null];
    paintWaterfall(pen, this.#small, this.#box, { values, bins, count, stretch, seen, range: this.#range, unit, y: { low: 0, high: y.high }, unitY, place, zone, zero: runs.zero, theme: palette.chart });
    this.#runs.place(runs.marks, seen, { left: this.#box.x, top: this.#box.y, width: this.#box.width, height: this.#box.height }, zone);
    if (place === null) return setText(this.#value, '');
    const bin = Math.max(0, Math.min(bins - 1, Math.floor((1 - place.down) * bins)));
    const at = seen.from + BigInt(Math.floor(Number(seen.spanNs) * place.across));
    const display = displayUnit(position(bin), unitY);
    const where = unitY === '' ? `element ${elementsText(bin, block, elements)}` : `${inUnit(position(bin), display, decimalsFor(y.high, display, 1000))} ${display.unit}`;
    setText(this.#value, `${clock(at, zone, 2)}, ${where}: ${this.#cellText(this.#waterfall.cell(at, bin, rate), log, unit)}`);
  }

  #cellText(cell: Cell, log: boolean, unit: string): string {
    if (cell.kind === 'nothing') return 'no sample';
    if (cell.kind === 'hole') return `${short(cell.missing)} ${cell.missing === 1 ? 'sample' : 'samples'} missing`;
    const { value, column: { present, expected } } = cell;
    const lacking = present < expected ? `, ${short(expected - present)} of ${short(expected)} samples missing` : '';
    const shown = log ? 10 * Math.log10(value) : value;
    const words = Number.isNaN(shown) ? 'no number' : !log ? this.#valueText(value) : Number.isFinite(shown) ? `${inUnit(shown, { factor: 1, unit }, 1)} ${unit}` : 'zero';
    return words + lacking;
  }

  #rate(): number {
    return this.catalogue().get(this.plot.traces[0]?.stream ?? '')?.nominalRate ?? 0;
  }

  #valueText(value: number): string {
    if (Number.isNaN(value)) return 'no number';
    const display = displayUnit(Math.abs(value), this.#unit());
    // Values of many decades have no decimals in common.
    if (this.plot.panel === 'spectrum' && this.plot.log.includes('y')) return `${significant(value * (display.unit.startsWith('×') ? 1 : display.factor), 3)} ${display.unit.startsWith('×') ? this.#unit() : display.unit}`.trim();
    const decimals = decimalsFor(this.#range.high - this.#range.low, display, 1000);
    return `${inUnit(value, display, decimals)} ${display.unit}`.trim();
  }

  #colour(): number {
    return traceColours(this.plot.traces)[0] ?? 0;
  }

  /** Says what a waterfall shows, or why nothing; returns whether there is something to paint. */
  #writeWaterfall(): boolean {
    const { frame } = this.#waterfall;
    const { zone } = this.shared();
    const known = frame !== null && frame.bins > 0;
    this.#empty.hidden = known || frame === null;
    setText(this.#empty, this.#empty.hidden ? '' : unknownText(this.plot.traces[0]?.channel ?? ''));
    if (!known) {
      setText(this.#value, '');
      setText(this.note, '');
      return false;
    }
    const wide = duration(Number(frame.columnNs));
    const parts = [
      frame.rows > 1 ? `${frame.rows} × ${frame.elements}` : `${frame.elements} elements`, this.#planeNote(frame),
      `a column is the maximum of ${wide}`, frame.block > 1 ? `a bin of ${frame.block} elements` : '',
      frame.slow ? 'wider, because this page is slow' : '', frame.short ? 'fewer columns kept: other waterfalls take the memory' : '',
      frame.state === 'ok' ? '' : frame.state,
      frame.liveFrom !== null && frame.liveFrom > this.shown.from ? `live memory since ${clock(frame.liveFrom, zone)}` : '',
    ];
    setText(this.note, parts.filter((part) => part !== '').join(' · '));
    return true;
  }

  /** Says what is shown, or why nothing is. */
  #write(sample: Sample | null): void {
    const frame = this.#frame;
    const words = sample === null ? emptyText(frame, this.plot.traces[0]?.channel ?? '') : '';
    this.#empty.hidden = sample !== null;
    setText(this.#empty, words);
    if (sample === null || frame === null) {
      setText(this.#value, '');
      return setText(this.note, '');
    }
    const { zone, runs: { zero } } = this.shared();
    const { size, block, skipped } = sample;
    const reduced = block[0] * block[1] > 1 ? `a pixel is the ${frame.isMax ? 'maximum' : 'mean'} of ${block[0]} × ${block[1]}` : '';
    const parts = [
      zero === null ? '' : `t = ${secondsText(sample.time - zero, 3)}`, clock(sample.time, zone, 3), `${size[0]} × ${size[1]}`, this.#planeNote(sample), reduced,
      frame.slow ? 'coarser, because this page is slow' : '', skipped > 0 ? `${short(skipped)} samples not shown` : '',
      frame.state === 'ok' ? '' : frame.state, frame.obstacle === null ? '' : 'newer samples are not kept',
    ];
    setText(this.note, parts.filter((part) => part !== '').join(' · '));
    setAttribute(this.note, 'title', `sample ${sample.index}, ${full(sample.time, zone)}`);
  }
}

/** Tells why nothing is shown. */
function emptyText(frame: PictureFrame | null, channel: string): string {
  if (frame === null) return '';
  if (frame.obstacle === 'too large') return 'A sample has more than 64 MB: the server keeps none to show. Publish a smaller one beside it.';
  if (frame.obstacle === 'no room') return 'Other plots take all memory that the server has for whole samples. Close some of them.';
  if (frame.state === 'unknown') return unknownText(channel);
  if (!frame.live) return 'No sample of this time is kept: the server keeps whole samples from when a page first shows them.';
  if (frame.obstacle === 'unasked') return 'Waiting for the next sample: the server had no room for one of before this page.';
  return 'Waiting for the next sample';
}

/** Pixels of the screen in a length of the page, no more than a frame has columns. */
const pixels = (css: number): number => Math.max(1, Math.min(MAX_COLUMNS, Math.round(css * (window.devicePixelRatio || 1))));

const unknownText = (channel: string): string => `No stream or no channel of this name: ${channel}`;
