/**
 * Feeds synthetic frames into the real plots and measures the script time of each frame: decoding, scaling,
 * labels, drawing. Everything is the page's own code; only the server is missing.
 */
import { encodeView } from '../../../dev/encode-view.mjs';
import { plotOf } from '../../../src/model/layout';
import { SECOND } from '../../../src/model/time';
import { PlotGrid } from '../../../src/ui/plot-grid';
import { PlotPanel, type PlotListener, type Shared } from '../../../src/ui/plot-panel';
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

declare global {
  interface Window {
    prepare(load: Load): Promise<Prepared>;
    measure(frames: number): Promise<Measured>;
  }
}

const WARM_UP_FRAMES = 10;
const SPAN = 10n * SECOND;
const START = 1_790_000_000n * SECOND;
const nothing = (): void => undefined;
const listener: PlotListener = {
  onActivate: nothing, onPan: nothing, onZoom: nothing, onCursor: nothing, onGap: nothing, onAxis: nothing,
  onRemoveTrace: nothing, onSingle: nothing, onClose: nothing,
};

function panels(load: Load): readonly PlotPanel[] {
  const palette = readPalette();
  const shared = (): Shared => ({ window: { spanNs: SPAN, endNs: null }, zone: 'utc', palette, edge: START });
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
  return grid.panels;
}

/** One frame of one plot: noisy sines with holes, moved on by `tick`. */
function frameOf(view: number, tick: number, load: Load): ArrayBuffer {
  const column = SPAN / BigInt(load.columns);
  const from = START + BigInt(tick) * column;
  const traces = Array.from({ length: load.tracesPerPlot }, (_, index) => {
    const pairs = new Float32Array(load.columns * 2);
    for (let k = 0; k < load.columns; k += 1) {
      const hole = load.gapsPerTrace > 0 && (k + tick) % Math.floor(load.columns / load.gapsPerTrace) === 0;
      const middle = Math.sin((k + tick) / (20 + index)) + index * 0.3;
      pairs[2 * k] = hole ? NaN : middle - 0.1 - 0.1 * Math.random();
      pairs[2 * k + 1] = hole ? NaN : middle + 0.1 + 0.1 * Math.random();
    }
    const gaps = Array.from({ length: load.gapsPerTrace }, (_, g) => {
      const at = from + (SPAN * BigInt(g)) / BigInt(load.gapsPerTrace);
      return { from: at, to: at + column, lostElements: 10, code: 17, firstIndex: BigInt(g), samples: 10 };
    });
    return { index, body: { first: 0, pairs }, samplesPerColumn: 20, newest: from, newestValue: Math.random(), gaps };
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

/** What the page does when a frame of each plot has come. */
function showAll(all: readonly PlotPanel[], buffers: readonly ArrayBuffer[], now: number): void {
  all.forEach((panel, i) => {
    const buffer = buffers[i];
    if (buffer !== undefined) panel.setFrame(decodeViewFrame(buffer));
  });
  for (const panel of all) panel.render(now);
}
