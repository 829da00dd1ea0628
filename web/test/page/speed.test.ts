/**
 * The gates of the drawing of 100 traces of 500 columns, and of a list of 1,000 streams: what a frame makes the page
 * do is counted, and a frame has a bounded size. Times depend on the machine and its other work: they are printed for the reader to judge (a frame
 * has 16 ms of script at most).
 */
import type { Browser, CDPSession } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Load } from './harness/harness';
import { launch, SURROUNDINGS } from './browser';

/** A hundred traces in few plots, and in as many plots as a page holds. */
const LOADS: readonly Load[] = [
  { plots: 10, tracesPerPlot: 10, columns: 500, gapsPerTrace: 5, frames: 60 },
  { plots: 24, tracesPerPlot: 5, columns: 500, gapsPerTrace: 5, frames: 30 },
];
const tracesOf = (load: Load): number => load.plots * load.tracesPerPlot;
/** A column is two floats and a mean of two bytes; headers and gaps add a little. */
const gateBytes = (load: Load): number => tracesOf(load) * (load.columns * 10 + 48 + load.gapsPerTrace * 48) + load.plots * 48;
/** An envelope has two edges and a line of means; a gap has a band, two edges and a tick. */
const gateStrokes = (load: Load): number => tracesOf(load) * (load.columns * 3 + load.gapsPerTrace * 8);
/** Axes, grids and labels; a canvas is never asked for more than a few calls beside what it draws. */
const gateOtherCalls = (load: Load): number => load.plots * 100 + tracesOf(load) * 5;
/** Figures are written in every third frame; of ten traces a plot shows none: then only canvases change, and nothing is laid out anew. */
const gateChanges = (load: Load): number => (load.tracesPerPlot < 10 ? tracesOf(load) / 3 : 0);

const share = (values: readonly number[], part: number): string =>
  ([...values].sort((a, b) => a - b)[Math.floor(values.length * part)] ?? NaN).toFixed(1);

/** Seconds of processor time that the page's thread spent in scripts so far. */
async function scriptSeconds(session: CDPSession): Promise<number> {
  const { metrics } = await session.send('Performance.getMetrics');
  return metrics.find(({ name }) => name === 'ScriptDuration')?.value ?? NaN;
}

describe('drawing', () => {
  let browser: Browser;
  beforeAll(async () => { browser = await launch(); });
  afterAll(() => browser.close());

  test.each(LOADS)('$tracesPerPlot traces of five hundred columns in each of $plots plots cost what they may', async (load) => {
    const page = await browser.newPage({ ...SURROUNDINGS, viewport: { width: 1600, height: 900 } });
    await page.goto(inject('harnessUrl'));
    const size = await page.evaluate((given) => window.prepare(given), load);
    const session = await page.context().newCDPSession(page);
    await session.send('Performance.enable', { timeDomain: 'threadTicks' });
    const before = await scriptSeconds(session);
    const measured = await page.evaluate((frames) => window.measure(frames), load.frames);
    const scriptMs = ((await scriptSeconds(session)) - before) * 1000 / load.frames;
    console.log(`script per frame: ${scriptMs.toFixed(1)} ms of processor time; wall median ${share(measured.scriptMs, 0.5)} ms, `
      + `p95 ${share(measured.scriptMs, 0.95)} ms; from frame to frame ${share(measured.frameMs, 0.5)} ms without a GPU; `
      + `${size.pointsPerFrame} columns, ${size.bytesPerFrame} bytes per frame`);
    // A measurement that measures nothing would print for ever.
    expect(scriptMs).toBeGreaterThan(0.5);
    const counted = await page.evaluate((frames) => window.count(frames), load.frames);
    const each = { strokes: counted.strokes / load.frames, other: (counted.canvasCalls - counted.strokes) / load.frames,
      changes: counted.documentChanges / load.frames };
    console.log(`counted per frame: ${each.strokes} strokes, ${each.other} other calls, ${each.changes} changes to the document`);
    expect(size.pointsPerFrame).toBe(tracesOf(load) * load.columns);
    expect(size.bytesPerFrame).toBeLessThanOrEqual(gateBytes(load));
    // Every column but those in holes is drawn, with both its edges and its mean.
    expect(each.strokes).toBeGreaterThan(tracesOf(load) * (load.columns - 2 * load.gapsPerTrace) * 3);
    expect(each.strokes).toBeLessThanOrEqual(gateStrokes(load));
    expect(each.other).toBeLessThanOrEqual(gateOtherCalls(load));
    expect(each.changes).toBeLessThanOrEqual(gateChanges(load));
    await page.close();
  });

  test('a list of a thousand streams costs the rows that are in view, and changes those that say something new', async () => {
    const page = await browser.newPage({ ...SURROUNDINGS, viewport: { width: 1600, height: 900 } });
    await page.goto(inject('harnessUrl'));
    const load = { streams: 1000, beats: 10, losing: 3 };
    const { rows, rowsInView, canvasCalls, documentChanges } = await page.evaluate((given) => window.countList(given), load);
    console.log(`counted per catalogue of ${rows} rows, ${rowsInView} in view: ${canvasCalls / load.beats} calls to the canvas, ${documentChanges / load.beats} changes to the document`);
    expect(rows).toBe(1020);
    expect(rowsInView).toBeGreaterThan(10);
    expect(rowsInView).toBeLessThan(60);
    // A sparkline has sixty bars; the canvas reaches 400 px beyond the view at both ends.
    const drawn = rowsInView + 2 * (400 / 20);
    expect(canvasCalls / load.beats).toBeGreaterThan(rowsInView * 60);
    expect(canvasCalls / load.beats).toBeLessThanOrEqual(drawn * 62 + 10);
    // Each losing stream has another count in its mark, and the canvas is moved to where it is.
    expect(documentChanges / load.beats).toBeGreaterThanOrEqual(load.losing);
    expect(documentChanges / load.beats).toBeLessThanOrEqual(2 * load.losing + 2);
    await page.close();
  });
});
