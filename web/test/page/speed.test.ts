/**
 * The gates of the drawing of 100 traces of 500 columns: what a frame makes the page do is counted, and a frame has
 * a bounded size. Times depend on the machine and its other work: they are printed for the reader to judge (a frame
 * has 16 ms of script at most).
 */
import type { Browser, CDPSession } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Load } from './harness/harness';
import { launch, SURROUNDINGS } from './browser';

const LOAD: Load = { plots: 10, tracesPerPlot: 10, columns: 500, gapsPerTrace: 5, frames: 60 };
const TRACES = LOAD.plots * LOAD.tracesPerPlot;
/** A column is two floats and a mean of two bytes; headers and gaps add a little. */
const GATE_BYTES = TRACES * (LOAD.columns * 10 + 48 + LOAD.gapsPerTrace * 48) + LOAD.plots * 48;
/** An envelope has two edges and a line of means; a gap has a band, two edges and a tick. */
const GATE_STROKES = TRACES * (LOAD.columns * 3 + LOAD.gapsPerTrace * 8);
/** Axes, grids and labels; a canvas is never asked for more than a few calls beside what it draws. */
const GATE_OTHER_CALLS = LOAD.plots * 100 + TRACES * 5;

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

  test('a hundred traces of five hundred columns cost what they may', async () => {
    const page = await browser.newPage({ ...SURROUNDINGS, viewport: { width: 1600, height: 900 } });
    await page.goto(inject('harnessUrl'));
    const size = await page.evaluate((load) => window.prepare(load), LOAD);
    const session = await page.context().newCDPSession(page);
    await session.send('Performance.enable', { timeDomain: 'threadTicks' });
    const before = await scriptSeconds(session);
    const measured = await page.evaluate((frames) => window.measure(frames), LOAD.frames);
    const scriptMs = ((await scriptSeconds(session)) - before) * 1000 / LOAD.frames;
    console.log(`script per frame: ${scriptMs.toFixed(1)} ms of processor time; wall median ${share(measured.scriptMs, 0.5)} ms, `
      + `p95 ${share(measured.scriptMs, 0.95)} ms; from frame to frame ${share(measured.frameMs, 0.5)} ms without a GPU; `
      + `${size.pointsPerFrame} columns, ${size.bytesPerFrame} bytes per frame`);
    // A measurement that measures nothing would print for ever.
    expect(scriptMs).toBeGreaterThan(0.5);
    const counted = await page.evaluate((frames) => window.count(frames), LOAD.frames);
    const each = { strokes: counted.strokes / LOAD.frames, other: (counted.canvasCalls - counted.strokes) / LOAD.frames,
      changes: counted.documentChanges / LOAD.frames };
    console.log(`counted per frame: ${each.strokes} strokes, ${each.other} other calls, ${each.changes} changes to the document`);
    expect(size.pointsPerFrame).toBe(TRACES * LOAD.columns);
    expect(size.bytesPerFrame).toBeLessThanOrEqual(GATE_BYTES);
    // Every column but those in holes is drawn, with both its edges and its mean.
    expect(each.strokes).toBeGreaterThan(TRACES * (LOAD.columns - 2 * LOAD.gapsPerTrace) * 3);
    expect(each.strokes).toBeLessThanOrEqual(GATE_STROKES);
    expect(each.other).toBeLessThanOrEqual(GATE_OTHER_CALLS);
    // Ten traces in a plot show no figures: from frame to frame only canvases change, and nothing is laid out anew.
    expect(each.changes).toBe(0);
    await page.close();
  });
});
