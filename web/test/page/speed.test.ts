/**
 * The gates of the drawing: 100 traces of 500 columns cost at most 16 ms of script a frame, and a frame has a
 * bounded size. Gated is the processor time of the page's thread, which other programs on the machine do not
 * change; wall times and the frame rate are printed only.
 */
import type { Browser, CDPSession } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Load } from './harness/harness';
import { launch, SURROUNDINGS } from './browser';

const LOAD: Load = { plots: 10, tracesPerPlot: 10, columns: 500, gapsPerTrace: 5, frames: 60 };
const GATE_MS = 16;
/** A column is two floats; headers and gaps add a little. */
const GATE_BYTES = 100 * (500 * 8 + 48 + 5 * 48) + 10 * 48;

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

  test('a hundred traces of five hundred columns fit a frame', async () => {
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
    expect(size.pointsPerFrame).toBe(50_000);
    expect(size.bytesPerFrame).toBeLessThanOrEqual(GATE_BYTES);
    // A gate that measures nothing would pass for ever.
    expect(scriptMs).toBeGreaterThan(0.5);
    expect(scriptMs).toBeLessThanOrEqual(GATE_MS);
    await page.close();
  });
});
