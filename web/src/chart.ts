/**
 * The only file that knows the chart library: a plot's axes, grid and canvas come from uPlot, everything
 * drawn inside them from `paint/`.
 *
 * uPlot is given no samples, only ranges: the server has thinned to the pixel already, and envelopes, holes
 * and hatches are unknown to its series. x is nanoseconds since the left edge, so that a double resolves
 * them at every zoom.
 */
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { axisScale, tickLabels, type AxisScale } from './model/axis';
import { bands, type Band, type PlotGap } from './model/gaps';
import type { Limit } from './model/limits';
import { valueTicks, type Range } from './model/scale';
import { relativeLabel, relativeTicks } from './model/run-marks';
import { tickLabel, timeTicks, type Ticks, type Zone } from './model/time';
import type { Area, Shown } from './paint/area';
import { Hatches, paintBands, paintSeam, paintStrip, STRIP_PX, type GapColours } from './paint/gaps';
import { paintLimits, type LimitColours } from './paint/limits';
import { paintTrace, type Pen } from './paint/trace';
import type { ViewFrame } from './wire/frame';

/** Colours and measures of one theme and size. */
export interface ChartTheme extends GapColours {
  readonly grid: string;
  readonly axis: string;
  readonly font: string;
  readonly fontPx: number;
  readonly limits: LimitColours;
  readonly linePx: number;
}

/** One y-axis: the traces that share a unit share it. */
export interface ChartAxis {
  readonly unit: string;
  readonly range: Range;
}

/** Everything a chart needs to draw one moment. */
export interface Scene {
  readonly frame: ViewFrame | null;
  readonly shown: Shown;
  readonly zone: Zone;
  /** The start of a run that time is counted from; null for times of day. */
  readonly zero: bigint | null;
  /** At most two: left and right. */
  readonly axes: readonly ChartAxis[];
  /** For each trace of the request, its pen and its axis. */
  readonly pens: readonly (Pen & { readonly axis: number })[];
  readonly gaps: readonly PlotGap[];
  /** Limits of each axis. */
  readonly limits: readonly (readonly Limit[])[];
}

/** Rectangle of the data within the chart's element, or in a picture, in CSS pixels. */
export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** Room above the data, for the unit. */
const HEAD_EM = 1.9;
/** Room right of the data, in CSS pixels. */
const RIGHT_PX = 12;
/** Width of a figure, generously. */
const GLYPH_EM = 0.62;

const EMPTY_RANGE: Range = { low: 0, high: 1 };
/** Room for a time label; fewer ticks than fit are drawn, never more. */
const TIME_LABEL_EM = 6.5;
const VALUE_LABEL_EM = 3.2;
/** Width of a value axis: the characters that `model/axis.ts` gives a label. */
const VALUE_AXIS_EM = 5;

/** A chart in an element. */
export class Chart {
  readonly #element: HTMLElement;
  #plot: uPlot;
  #theme: ChartTheme;
  #hatches: Hatches;
  #scene: Scene | null = null;
  #bands: readonly Band[] = [];
  #ticks: Ticks = { at: [], stepNs: 1n, digits: 0 };
  #twoAxes = false;

  constructor(element: HTMLElement, size: { width: number; height: number }, theme: ChartTheme) {
    this.#element = element;
    this.#theme = theme;
    this.#hatches = new Hatches(theme, devicePixelRatio);
    this.#plot = this.#build(size);
  }

  /** Fits the chart to its element. */
  resize(size: { width: number; height: number }): void {
    if (size.width !== this.#plot.width || size.height !== this.#plot.height) this.#plot.setSize(size);
  }

  /** Changes colours and type; the next {@link draw} shows it. */
  setTheme(theme: ChartTheme): void {
    const retype = theme.fontPx !== this.#theme.fontPx || theme.font !== this.#theme.font;
    this.#theme = theme;
    this.#hatches = new Hatches(theme, devicePixelRatio);
    if (retype) this.#rebuild();
  }

  /** Draws a scene, at once. */
  draw(scene: Scene): void {
    this.#scene = scene;
    const right = scene.axes.length > 1;
    if (right !== this.#twoAxes) {
      this.#twoAxes = right;
      this.#rebuild();
    }
    const { width } = this.box();
    this.#bands = bands(scene.gaps, scene.shown.from, scene.shown.spanNs, width);
    const wanted = width / (this.#theme.fontPx * TIME_LABEL_EM);
    const [from, to] = [scene.shown.from, scene.shown.from + scene.shown.spanNs];
    this.#ticks = scene.zero === null ? timeTicks(from, to, wanted, scene.zone) : relativeTicks(from, to, wanted, scene.zero);
    this.#plot.batch(() => {
      this.#plot.setScale('x', { min: 0, max: Number(scene.shown.spanNs) });
      scene.axes.slice(0, 2).forEach(({ range }, i) => this.#plot.setScale(axisKey(i), { min: range.low, max: range.high }));
      // Labels depend on the window's position as well as on its span: always made again.
      this.#plot.redraw(false, true);
    });
  }

  /** Returns the rectangle of the data within the element. */
  box(): Box {
    const ratio = uPlot.pxRatio;
    const { left, top, width, height } = this.#plot.bbox;
    return { left: left / ratio, top: top / ratio, width: width / ratio, height: height / ratio };
  }

  /** Returns the gaps on the screen as they were drawn last. */
  get bands(): readonly Band[] {
    return this.#bands;
  }

  /** Returns how the values of an axis are written. */
  scale(axis: number): AxisScale {
    const { range, unit } = this.#scene?.axes[axis] ?? { range: EMPTY_RANGE, unit: '' };
    return axisScale(range, unit);
  }

  /** Takes the chart away. */
  destroy(): void {
    this.#plot.destroy();
  }

  /** The library reads fonts, and which axes there are, once: when it is made. */
  #rebuild(): void {
    const { width, height } = this.#plot;
    this.#plot.destroy();
    this.#plot = this.#build({ width, height });
  }

  #build(size: { width: number; height: number }): uPlot {
    return new uPlot(this.#options(size), [[0, 1], [null, null], [null, null]], this.#element);
  }

  #options(size: { width: number; height: number }): uPlot.Options {
    return {
      ...size,
      padding: [Math.ceil(this.#theme.fontPx * HEAD_EM), RIGHT_PX, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      select: { show: false, left: 0, top: 0, width: 0, height: 0 },
      scales: {
        x: { time: false, auto: false, range: (_, low, high) => [low, high] },
        y0: { auto: false, range: (_, low, high) => [low, high] },
        y1: { auto: false, range: (_, low, high) => [low, high] },
      },
      series: [{}, { scale: 'y0', show: false }, { scale: 'y1', show: false }],
      axes: [this.#timeAxis(), this.#valueAxis(0), ...(this.#twoAxes ? [this.#valueAxis(1)] : [])],
      hooks: { drawAxes: [() => this.#paint()] },
    };
  }

  #timeAxis(): uPlot.Axis {
    return {
      scale: 'x',
      size: () => this.#theme.fontPx * 2 + STRIP_PX,
      gap: STRIP_PX + 2,
      font: this.#font(),
      stroke: () => this.#theme.axis,
      ticks: { show: false },
      grid: { stroke: () => this.#theme.grid, width: 1 },
      splits: () => this.#ticks.at.map((at) => Number(at - (this.#scene?.shown.from ?? 0n))),
      values: () => this.#ticks.at.map((at) => this.#timeLabel(at)),
    };
  }

  /** A label that would be cut off at the right edge is left out; its grid line stays. */
  #timeLabel(at: bigint): string {
    const scene = this.#scene;
    if (scene === null) return '';
    const label = scene.zero === null ? tickLabel(at, this.#ticks, scene.zone) : relativeLabel(at, this.#ticks, scene.zero);
    const { width } = this.box();
    const x = (Number(at - scene.shown.from) / Number(scene.shown.spanNs)) * width;
    const half = (label.length * this.#theme.fontPx * GLYPH_EM) / 2;
    return x + half > width + RIGHT_PX ? '' : label;
  }

  #valueAxis(index: number): uPlot.Axis {
    return {
      scale: axisKey(index),
      side: index === 0 ? 3 : 1,
      size: () => Math.ceil(this.#theme.fontPx * VALUE_AXIS_EM),
      gap: 6,
      font: this.#font(),
      stroke: () => this.#theme.axis,
      ticks: { show: false },
      grid: { show: index === 0, stroke: () => this.#theme.grid, width: 1 },
      splits: (plot) => [...this.#valueTicks(plot, index)],
      values: (_, at) => this.#valueLabels(at, index),
    };
  }

  #font(): string {
    return `${this.#theme.fontPx}px ${this.#theme.font}`;
  }

  #valueTicks(plot: uPlot, index: number): readonly number[] {
    const range = this.#scene?.axes[index]?.range ?? EMPTY_RANGE;
    const room = plot.bbox.height / uPlot.pxRatio / (this.#theme.fontPx * VALUE_LABEL_EM);
    return valueTicks(range, Math.max(2, room));
  }

  #valueLabels(at: readonly number[], index: number): string[] {
    const axis = this.#scene?.axes[index];
    return axis === undefined ? at.map(() => '') : tickLabels(at, axisScale(axis.range, axis.unit), axis.range);
  }

  #area(): Area {
    return { ...this.#plot.bbox, ratio: uPlot.pxRatio };
  }

  /** Bands below, traces over them, so that a band never hides a sample that did arrive. */
  #paint(): void {
    const scene = this.#scene;
    if (scene === null) return;
    const context = this.#plot.ctx;
    const area = this.#area();
    context.save();
    paintStrip(context, this.#bands, area, this.#hatches);
    context.beginPath();
    context.rect(area.left, area.top, area.width, area.height);
    context.clip();
    paintBands(context, this.#bands, area, this.#hatches);
    this.#paintSeam(context, area, scene);
    scene.axes.forEach(({ range }, axis) => paintLimits(context, scene.limits[axis] ?? [], range, area, this.#theme.limits));
    this.#paintTraces(context, area, scene);
    context.restore();
  }

  #paintSeam(context: CanvasRenderingContext2D, area: Area, scene: Scene): void {
    const from = scene.frame?.traces.map((trace) => trace.liveMemoryFrom).reduce((a, b) => (a > b ? a : b), 0n) ?? 0n;
    const x = area.left + (Number(from - scene.shown.from) / Number(scene.shown.spanNs)) * area.width;
    paintSeam(context, x, area, this.#theme.axis);
  }

  #paintTraces(context: CanvasRenderingContext2D, area: Area, scene: Scene): void {
    if (scene.frame === null) return;
    for (const trace of scene.frame.traces) {
      const pen = scene.pens[trace.index];
      const axis = pen === undefined ? undefined : scene.axes[pen.axis];
      if (pen === undefined || axis === undefined) continue;
      paintTrace(context, scene.frame, trace, { area, shown: scene.shown, range: axis.range }, pen);
    }
  }
}

const axisKey = (index: number): string => `y${index}`;
