/**
 * Feeds synthetic frames into the real plots, and counts or measures what each frame costs: decoding, scaling,
 * labels, drawing. Everything is the page's own code; only the server is missing.
 */
import { encodeView, meanShares } from '../../../dev/encode-view.mjs';
import { plotOf } from '../../../src/model/layout';
import { SECOND } from '../../../src/model/time';
import { PlotGrid } from '../../../src/ui/plot-grid';
import type { PlotListener, Shared } from '../../../src/ui/panel';
import { PlotPanel } from '../../../src/ui/plot-panel';
import { readPalette } from '../../../src/ui/theme';
import { decodeViewFrame } from '../../../src/wire/frame';
import '../../../src/style.css';

/** What is measured. */
export interface Load {
  readonly plots: number;
  readonly tracesPerPlot: number;
  readonly columns: number;
  readonly gapsPerTrace: number;
  readonly frames: number;
}

/** The size of what is fed. */
export interface Prepared {
  readonly bytesPerFrame: number;
  readonly pointsPerFrame: number;
}

/** Wall time of each frame's script, and from frame to frame. */
export interface Measured {
  readonly scriptMs: readonly number[];
  readonly frameMs: readonly number[];
}

/** What all frames together made the page do. */
export interface Counted {
  /** Calls that put a piece of a line or of an area on a canvas. */
  readonly strokes: number;
  /** Calls to canvases of any kind, those too. */
  readonly canvasCalls: number;
  /** Changes to the document's tree, texts and attributes. */
  readonly documentChanges: number;
}

declare global {
  interface Window {
    prepare(load: Load): Promise<Prepared>;
    measure(frames: number): Promise<Measured>;
    count(frames: number): Promise<Counted>;
  }
}

const WARM_UP_FRAMES = 10;
const SPAN = 10n * SECOND;
const START = 1_790_000_000n * SECOND;
const nothing = (): void => undefined;
const listener: PlotListener = {
  onActivate: nothing, onPan: nothing, onZoom: nothing, onCursor: nothing, onCursors: nothing, onDragCursor: nothing, onGap: nothing, onAxis: nothing,
  onRemoveTrace: nothing, onSingle: nothing, onExport: nothing, onClose: nothing,
};

function panels(load: Load): readonly PlotPanel[] {
  const palette = readPalette();
  const shared = (): Shared => ({ window: { spanNs: SPAN, endNs: null }, marks: [], runs: { marks: [], zero: null }, limits: new Map(), zone: 'utc', palette, edge: START });
  const element = document.getElementById('grid');
  if (element === null) throw new Error('the harness has no grid');
  const grid = new PlotGrid(element, { onResize: nothing, onFitted: nothing });
  const plots = Array.from({ length: load.plots }, (_, p) =>
    plotOf(Array.from({ length: load.tracesPerPlot }, (_, t) => ({ stream: `bench/${p}/${t}`, channel: 'value' }))));
  plots.forEach((plot, p) => {
    const panel = new PlotPanel(p, plot, listener, shared);
    panel.setPlot(plot, plot.traces.map(() => 'V'));
    grid.add(panel);
  });
  grid.arrange(plots, null);
  return grid.panels.filter((panel) => panel instanceof PlotPanel);
}

/** A number from 0 to 1 that looks random and is the same in every run, so that counts are too. */
function noise(n: number): number {
  const x = Math.sin(n * 12.9898) * 43_758.5453;
  return x - Math.floor(x);
}

/** One frame of one plot: noisy sines high enough for their means, with holes, moved on by `tick`. */
function frameOf(view: number, tick: number, load: Load): ArrayBuffer {
  const column = SPAN / BigInt(load.columns);
  const from = START + BigInt(tick) * column;
  const traces = Array.from({ length: load.tracesPerPlot }, (_, index) => {
    const pairs = new Float32Array(load.columns * 2);
    const means = new Float64Array(load.columns);
    for (let k = 0; k < load.columns; k += 1) {
      const hole = load.gapsPerTrace > 0 && (k + tick) % Math.floor(load.columns / load.gapsPerTrace) === 0;
      const middle = Math.sin((k + tick) / (20 + index)) + index * 0.3;
      pairs[2 * k] = hole ? NaN : middle - 0.4 - 0.1 * noise(k + tick);
      pairs[2 * k + 1] = hole ? NaN : middle + 0.4 + 0.1 * noise(k + tick + 0.5);
      means[k] = hole ? NaN : middle;
    }
    const gaps = Array.from({ length: load.gapsPerTrace }, (_, g) => {
      const at = from + (SPAN * BigInt(g)) / BigInt(load.gapsPerTrace);
      return { from: at, to: at + column, lostElements: 10, code: 17, firstIndex: BigInt(g), samples: 10 };
    });
    return { index, body: { first: 0, pairs, means: meanShares(pairs, means) }, samplesPerColumn: 20, newest: from, newestValue: noise(tick), gaps };
  });
  return encodeView({ frame: tick, view, flags: 1, now: from + SPAN, from, column, columnCount: load.columns, traces });
}

let prepared: { readonly all: readonly PlotPanel[]; readonly frames: readonly (readonly ArrayBuffer[])[] } | null = null;

window.prepare = async (load) => {
  const all = panels(load);
  const frames = Array.from({ length: load.frames }, (_, tick) => all.map((_, view) => frameOf(view, tick, load)));
  prepared = { all, frames };
  // The first frames pay for compiling.
  await window.measure(WARM_UP_FRAMES);
  const bytesPerFrame = frames[0]?.reduce((sum, buffer) => sum + buffer.byteLength, 0) ?? 0;
  return { bytesPerFrame, pointsPerFrame: load.plots * load.tracesPerPlot * load.columns };
};

/** The work lies in the callback itself, not behind an `await`: only there does the browser count it as script. */
window.measure = (count) => new Promise((resolve, reject) => {
  if (prepared === null) {
    reject(new Error('nothing was prepared'));
    return;
  }
  const { all, frames } = prepared;
  const measured = { scriptMs: [] as number[], frameMs: [] as number[] };
  let last = performance.now();
  const step = (now: number): void => {
    const before = performance.now();
    showAll(all, frames[measured.scriptMs.length] ?? [], now);
    measured.scriptMs.push(performance.now() - before);
    measured.frameMs.push(now - last);
    last = now;
    if (measured.scriptMs.length < count) requestAnimationFrame(step);
    else resolve(measured);
  };
  requestAnimationFrame(step);
});

/** From one counted frame to the next: figures are written less often than frames are drawn. */
const FRAME_MS = 1000 / 30;
const STROKES = ['lineTo', 'moveTo', 'rect', 'fillRect', 'arc'];

/** Draws frames outside any animation frame: the count does not depend on when the browser asks for one. */
window.count = async (count) => {
  if (prepared === null) throw new Error('nothing was prepared');
  const { all, frames } = prepared;
  const start = performance.now();
  const { calls, documentChanges } = countWork(() => {
    for (let tick = 0; tick < count; tick += 1) showAll(all, frames[tick] ?? [], start + tick * FRAME_MS);
  });
  const sum = (names: Iterable<string>): number => [...names].reduce((total, name) => total + (calls.get(name) ?? 0), 0);
  return { strokes: sum(STROKES), canvasCalls: sum(calls.keys()), documentChanges };
};

/** Runs `work`, and counts the calls of every method of canvases and the changes to the document. */
export function countWork(work: () => void): { readonly calls: ReadonlyMap<string, number>; readonly documentChanges: number } {
  const observer = new MutationObserver(nothing);
  observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  try {
    const calls = countCanvasCalls(work);
    return { calls, documentChanges: observer.takeRecords().length };
  } finally {
    observer.disconnect();
  }
}

/** Runs `work` while every method of canvases counts its calls. */
function countCanvasCalls(work: () => void): ReadonlyMap<string, number> {
  const calls = new Map<string, number>();
  const methods = [CanvasRenderingContext2D.prototype, Path2D.prototype].flatMap((prototype) =>
    Object.entries(Object.getOwnPropertyDescriptors(prototype))
      .filter(([name, { value }]) => name !== 'constructor' && typeof value === 'function')
      .map(([name, own]) => ({ prototype, name, own })));
  for (const { prototype, name, own } of methods) {
    const method = own.value as (...given: unknown[]) => unknown;
    const value = function (this: unknown, ...given: unknown[]): unknown {
      calls.set(name, (calls.get(name) ?? 0) + 1);
      return method.apply(this, given);
    };
    Object.defineProperty(prototype, name, { ...own, value });
  }
  try {
    work();
  } finally {
    for (const { prototype, name, own } of methods) Object.defineProperty(prototype, name, own);
  }
  return calls;
}

/** What the page does when a frame of each plot has come. */
function showAll(all: readonly PlotPanel[], buffers: readonly ArrayBuffer[], now: number): void {
  all.forEach((panel, i) => {
    const buffer = buffers[i];
    if (buffer !== undefined) panel.setFrame(decodeViewFrame(buffer));
  });
  for (const panel of all) panel.render(now);
}
