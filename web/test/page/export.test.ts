/**
 * Export of what is seen, over the fake server: pictures on white, files of values, and what is said when there is none.
 */
import { readFile } from 'node:fs/promises';
import type { Download, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { drawn, until, windowOf } from './browser';
import { Pages } from './pages';
import { withPixels } from './png';

const SECOND = 1_000_000_000n;
/** The holes of `test/hole` come every four seconds and last for half a second. */
const PERIOD = 4n * SECOND;

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer(); });
afterAll(() => fake.close());

const panel = (page: Page): ReturnType<Page['locator']> => page.locator('#export');
const note = async (page: Page): Promise<string> => (await page.locator('.export-note').innerText()).replaceAll('\u202f', ' ');

/** What the browser saves after an action. */
async function saved(page: Page, act: () => Promise<void>): Promise<{ download: Download; bytes: Buffer }> {
  const [download] = await Promise.all([page.waitForEvent('download'), act()]);
  return { download, bytes: await readFile(await download.path()) };
}

/** Width, height, and colours of single pixels of a PNG. */
function pixels(page: Page, bytes: Buffer, places: readonly (readonly [number, number])[]): Promise<{ width: number; height: number; colours: string[]; inks: number }> {
  const at = places.map(([x, y]) => [x, y] as [number, number]);
  return withPixels(page, [bytes], (blank, images) => blank.evaluate(({ images: [image], at }) => {
    const { data, width, height } = image as ImageData;
    const colours = at.map(([x, y]) => [...data.subarray(4 * (y * width + x), 4 * (y * width + x) + 4)].join());
    const inks = new Set<number>();
    for (let i = 0; i < data.length; i += 4) inks.add(((data[i] ?? 0) << 16) | ((data[i + 1] ?? 0) << 8) | (data[i + 2] ?? 0));
    return { width, height, colours, inks: inks.size };
  }, { images, at }));
}

/** The end of a window in which `test/hole` has a hole that settled long ago. */
const holeEnd = (): bigint => ((BigInt(Date.now()) * 1_000_000n) / PERIOD - 3n) * PERIOD + 3n * SECOND;

describe('what is seen is exported', () => {
  test('by a key: every sample and every hole of the window, as a file named for it', async () => {
    const page = await pages.show(fake.url, `?span=2s&end=${holeEnd()}&plot=test/hole:sine`);
    await drawn(page);
    await page.keyboard.press('e');
    expect(await panel(page).getByRole('heading', { level: 2 }).innerText()).toBe('Export test/hole');
    const { download, bytes } = await saved(page, () => panel(page).getByRole('button', { name: 'CSV: test/hole, every sample' }).click());
    expect(download.suggestedFilename()).toMatch(/^test-hole_\d{4}-\d\d-\d\d_\d{6}Z\.csv$/);
    const lines = bytes.toString().trim().split('\n');
    const { spanNs, endNs } = windowOf(page);
    const times = lines.filter((line) => /^\d/.test(line)).map((line) => BigInt(line.split(',')[1] ?? 0));
    expect(times.every((time) => time >= (endNs ?? 0n) - spanNs && time < (endNs ?? 0n))).toBe(true);
    expect(lines.some((line) => line.startsWith('# hole: 500 samples'))).toBe(true);
    expect(times.length).toBe(1500);
    await until('the name', async () => (await note(page)) === `Saved as ${download.suggestedFilename()}`);
    await page.keyboard.press('Escape');
    expect(await panel(page).isVisible()).toBe(false);
  });

  test('as a picture on white, of a plot or of the page, while the page stays dark', async () => {
    const page = await pages.show(fake.url, `?span=2s&end=${holeEnd()}&plot=test/hole:sine&plot=test/chirp:a,test/sine:ch0`);
    await drawn(page);
    const theme = await page.evaluate(() => document.documentElement.dataset['theme']);
    await page.keyboard.press('e');
    const plot = await saved(page, () => panel(page).getByRole('button', { name: 'PNG of this plot' }).click());
    const whole = await saved(page, () => panel(page).getByRole('button', { name: 'PNG of the page' }).click());
    expect([plot, whole].map(({ download }) => download.suggestedFilename().replace(/_.*Z/, ''))).toEqual(['test-hole.png', 'page.png']);
    const [one, all] = [await pixels(page, plot.bytes, [[1, 1]]), await pixels(page, whole.bytes, [[1, 1]])];
    expect([one.colours, all.colours]).toEqual([['255,255,255,255'], ['255,255,255,255']]);
    // Text, a trace, a hatch: more than a blank sheet.
    expect(Math.min(one.inks, all.inks)).toBeGreaterThan(20);
    const box = await page.locator('.plot-body').first().boundingBox();
    expect(one.width).toBeGreaterThanOrEqual(Math.floor(box?.width ?? 0));
    expect(all.height).toBeGreaterThan(one.height);
    expect(await page.evaluate(() => [document.documentElement.dataset['theme'], document.documentElement.hasAttribute('data-printing')])).toEqual([theme, false]);
  });

  test('thinned, or by a command to copy, where every sample is too much', async () => {
    const page = await pages.show(fake.url, '?span=10min&plot=test/chirp:a');
    await drawn(page);
    await page.keyboard.press('e');
    expect(await panel(page).getByRole('button', { name: 'CSV: test/chirp, every sample' }).count()).toBe(0);
    expect((await panel(page).innerText()).replaceAll('\u202f', ' ')).toMatch(/values: more than the 1 000 000 of one file/);
    expect(await panel(page).locator('code').innerText()).toMatch(/^tallycast query test\/chirp --from \d{19} --to \d{19} --export parquet test-chirp_/);
    const { download, bytes } = await saved(page, () => panel(page).getByRole('button', { name: 'CSV: test/chirp, thinned' }).click());
    expect(download.suggestedFilename()).toContain('test-chirp-thinned_');
    expect(bytes.toString()).toContain('# values: columns');
  });

  test('with the reason and the other ways where the server refuses', async () => {
    const page = await pages.show(fake.url, '?span=2s&plot=lab/old/pump:pressure');
    const silent = await page.evaluate(() => [...document.querySelectorAll('.plot-title')].map((each) => each.textContent).join());
    expect(silent).toContain('pump');
    await page.keyboard.press('e');
    await panel(page).getByRole('button', { name: 'Parquet: lab/old/pump, every sample' }).click();
    await until('the reason', async () => (await note(page)) === 'of this time only the extremes of columns are kept: export columns');
    expect(await panel(page).locator('code').count()).toBe(1);
    pages.errors.splice(0);
  });

  test.each([[390, 844], [820, 1180], [1440, 900], [2560, 1440]])('from a panel that fits a page of %i × %i pixels, by touch', async (width, height) => {
    const page = await pages.show(fake.url, '?span=10min&plot=test/chirp:a,test/hole:sine', { viewport: { width, height }, hasTouch: true });
    await drawn(page);
    await page.locator('.plot-body').first().tap();
    await page.locator('.plot-tools > [title^="Export"]').first().tap();
    await until('the panel', () => panel(page).isVisible());
    const beyond = await panel(page).locator(':is(button, code, h2, h3, p)').evaluateAll((all) => all.filter((each) => each.getBoundingClientRect().right > innerWidth || each.getBoundingClientRect().left < 0).length);
    expect(beyond).toBe(0);
    expect(await panel(page).evaluate((each) => each.getBoundingClientRect().top)).toBeGreaterThanOrEqual(0);
    await panel(page).locator('button[title^="Close"]').tap();
    expect(await panel(page).isVisible()).toBe(false);
  });
});
