/**
 * The mean in a full envelope, over the fake server's `test/pulses`: every column of it reaches from 0 to 1, a quarter of its
 * samples are 1.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { drawn, until } from './browser';
import { still } from './canvas';
import { Pages } from './pages';

const SECOND = 1_000_000_000n;

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer(); });
afterAll(() => fake.close());

/** A window of the past, whose axis reaches from 0 to 1. */
const query = (): string => `?span=2s&end=${(BigInt(Date.now()) * 1_000_000n / SECOND - 20n) * SECOND}&plot=test/pulses:on;y=fixed:0:1`;

/** For each pixel column the height of its most opaque pixel, as a share of the plot's, edges of the envelope left out. */
function heights(page: Page): Promise<readonly number[]> {
  return page.evaluate(() => {
    const over = document.querySelector<HTMLElement>('.u-over');
    const context = document.querySelector<HTMLCanvasElement>('.plot-body canvas')?.getContext('2d');
    if (over === null || context === null || context === undefined) return [];
    const { offsetLeft, offsetTop, offsetWidth: width, offsetHeight: height } = over;
    const { data } = context.getImageData(offsetLeft, offsetTop, width, height);
    const alpha = (x: number, y: number): number => data[4 * (y * width + x) + 3] ?? 0;
    return Array.from({ length: width }, (_, x) => {
      let best = 2;
      for (let y = 3; y < height - 2; y += 1) if (alpha(x, y) > alpha(x, best)) best = y;
      return 1 - (best + 0.5) / height;
    });
  });
}

test('is drawn where it lies, although the envelope is full', async () => {
  const page = await pages.show(fake.url, query());
  await drawn(page);
  await still(page);
  const inner = (await heights(page)).slice(4, -4);
  expect(inner.length).toBeGreaterThan(500);
  const mean = inner.reduce((sum, height) => sum + height, 0) / inner.length;
  // Each column's mean is that of twelve samples; a line from column to column passes through all heights between them.
  expect(mean).toBeGreaterThan(0.2);
  expect(mean).toBeLessThan(0.34);
});

test('is told at the pointer and between cursors', async () => {
  const page = await pages.show(fake.url, query());
  await drawn(page);
  await still(page);
  // Where a column lies in the pulses depends on the time of day: most have both extremes, not each.
  let looks = 0;
  await until('the mean at the pointer', async () => {
    await page.locator('.plot-body').hover({ position: { x: 300 + (looks % 100), y: 60 } });
    looks += 1;
    return /0\.000 … 1\.000 V, mean 0\.\d+/.test(await page.locator('.cursor-value').innerText());
  });
  await page.keyboard.press('c');
  const mean = page.locator("#measure td[data-name='mean']");
  await until('a mean', async () => /^0\.\d+$/.test(await mean.innerText()));
  expect(Math.abs(Number(await mean.innerText()) - 0.25)).toBeLessThan(0.03);
  // Of pulses it is a half, the most that a quarter of values up to 1 can have.
  const rms = (await page.locator("#measure td[data-name='rms']").innerText()).split(' … ').map(Number);
  expect([rms.length, (rms[0] ?? NaN) < 0.3, Math.abs((rms[1] ?? NaN) - 0.5) < 0.03]).toEqual([2, true, true]);
  expect((await page.locator('.measure-source').innerText()).endsWith('their min, max and mean, bounds of rms')).toBe(true);
});
