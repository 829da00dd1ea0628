/**
 * Two cursors over the fake server, whose signals are known: placed and moved by keys, mouse and finger, read out, kept in
 * the address.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { readLayout } from '../../src/model/layout';
import type { CursorName, Cursors } from '../../src/model/stretch';
import { drawn, paused, until, windowOf } from './browser';
import { dataBox, still } from './canvas';
import { Pages } from './pages';
import { swipe } from './touch';

const SECOND = 1_000_000_000n;
/** The holes of `test/hole` come every four seconds and last for half a second. */
const PERIOD = 4n * SECOND;

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer(); });
afterAll(() => fake.close());

/** The beginning of a hole that settled long ago. */
const holeStart = (): bigint => ((BigInt(Date.now()) * 1_000_000n) / PERIOD - 3n) * PERIOD + SECOND;

const cursorsOf = (page: Page): Cursors | null => readLayout(new URL(page.url()).search).cursors;

async function placed(page: Page): Promise<Cursors> {
  await until('cursors in the address', () => cursorsOf(page) !== null);
  return cursorsOf(page) as Cursors;
}

/** The middle of a cursor's letter on a plot. */
async function flag(page: Page, name: CursorName, plot = 0): Promise<{ x: number; y: number }> {
  const box = await page.locator(`.stretch-line[data-cursor=${name}] > .stretch-flag`).nth(plot).boundingBox();
  if (box === null) throw new Error('a cursor has a letter');
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

/** The x of a cursor's line within the data of a plot. */
async function lineX(page: Page, name: CursorName, plot = 0): Promise<number> {
  const [line, data] = [await page.locator(`.stretch-line[data-cursor=${name}]`).nth(plot).boundingBox(), await dataBox(page, plot)];
  if (line === null) throw new Error('a cursor has a line');
  return line.x + line.width / 2 - data.x;
}

const text = async (page: Page, selector: string): Promise<string> => (await page.locator(selector).first().innerText()).replaceAll('\u202f', ' ').replace(/\s+/g, ' ');

/** The value of a column of the read-out. */
const cell = (page: Page, name: string, row = 0): Promise<string> => page.locator(`#measure tbody tr`).nth(row).locator(`td[data-name='${name}']`).innerText();

const numbers = (written: string): readonly number[] => written.replaceAll('−', '-').split(' … ').map(Number);

describe('two cursors', () => {
  test('are placed by a key in a held window, moved by arrows, changed with tab, and taken away', async () => {
    const page = await pages.show(fake.url, '?span=10s&plot=test/chirp:a&plot=test/hole:sine');
    await drawn(page);
    await page.keyboard.press('c');
    expect(await paused(page)).toBe(true);
    const first = await placed(page);
    expect(await page.locator('.stretch-line:visible').count()).toBe(4);
    const { width } = await dataBox(page);
    const pixel = Number(windowOf(page).spanNs) / Math.round(width);
    const moved = async (name: CursorName, byPx: number, act: () => Promise<void>): Promise<void> => {
      const before = await placed(page);
      await act();
      await until(`${name} moved by ${byPx} pixels`, async () => Math.abs(Number((await placed(page))[name] - before[name]) - byPx * pixel) < 2);
    };
    await moved('a', -1, () => page.keyboard.press('ArrowLeft'));
    await moved('a', 10, () => page.keyboard.press('Shift+ArrowRight'));
    await page.keyboard.press('Tab');
    await moved('b', 1, () => page.keyboard.press('ArrowRight'));
    await page.keyboard.press('End');
    await until('b at the right edge', async () => Math.abs(await lineX(page, 'b') - width) < 1.5);
    // The window stood still meanwhile: the arrows were the cursors'.
    await until('b at the end of the window', async () => windowOf(page).endNs === (await placed(page)).b);
    expect((await placed(page)).a).toBeGreaterThan(first.a);
    await page.keyboard.press('c');
    await until('no cursors', () => cursorsOf(page) === null);
    expect(await page.locator('#measure').isVisible()).toBe(false);
    expect(await page.locator('.stretch-line:visible').count()).toBe(0);
  });

  test('are dragged with the mouse, on all plots at once, without panning', async () => {
    const page = await pages.show(fake.url, '?span=10s&plot=test/chirp:a&plot=test/hole:sine');
    await drawn(page);
    await page.keyboard.press('c');
    await still(page);
    const { endNs } = windowOf(page);
    const [from, before] = [await flag(page, 'b'), await lineX(page, 'b')];
    await page.mouse.move(from.x, from.y);
    await page.mouse.down();
    await page.mouse.move(from.x - 120, from.y, { steps: 4 });
    await page.mouse.up();
    await until('the line where it was dragged', async () => Math.abs(await lineX(page, 'b') - (before - 120)) <= 1);
    expect(Math.abs(await lineX(page, 'b', 1) - (before - 120))).toBeLessThanOrEqual(1);
    expect(windowOf(page).endNs).toBe(endNs);
    // Across the other one: the times change places, the letters stay.
    const b = await flag(page, 'b');
    await page.mouse.move(b.x, b.y);
    await page.mouse.down();
    await page.mouse.move(b.x - 400, b.y, { steps: 4 });
    await page.mouse.up();
    await until('a negative interval', async () => (await text(page, '.measure-fact')).startsWith('Δt −'));
  });

  test('are dragged with a finger', async () => {
    const page = await pages.show(fake.url, '?span=10s&plot=test/chirp:a', { viewport: { width: 820, height: 1180 }, hasTouch: true });
    await drawn(page);
    await page.locator('.plot-body').tap();
    await page.locator('.plot-tools > [title^="Two cursors"]').tap();
    await still(page);
    const [from, before, { endNs }] = [await flag(page, 'a'), await lineX(page, 'a'), windowOf(page)];
    await swipe(page, [{ from, to: { x: from.x + 90, y: from.y } }]);
    await until('the line where it was dragged', async () => Math.abs(await lineX(page, 'a') - (before + 90)) <= 1);
    expect(windowOf(page).endNs).toBe(endNs);
  });

  test('of the address are where they were, and say what lies between them', async () => {
    // 200 ms before the hole: single samples.
    const start = holeStart();
    const [a, b] = [start - 150_000_000n, start - 50_000_000n];
    const page = await pages.show(fake.url, `?span=200ms&end=${start}&cursors=${a},${b}&plot=test/hole:sine`);
    await drawn(page);
    await until('exact values', async () => (await text(page, '.measure-source')).endsWith('from 101 samples: all exact'));
    expect(await text(page, '.measure-fact:nth-of-type(1)')).toBe('Δt 100.0 ms');
    expect(await text(page, '.measure-fact:nth-of-type(2)')).toBe('1/Δt 10.0 Hz');
    expect(await cell(page, 'holes')).toBe('none');
    const [low, high, mean, rms] = await Promise.all(['min', 'max', 'mean', 'rms'].map((name) => cell(page, name)));
    for (const one of [low, high, mean, rms]) expect(one).toMatch(/^−?\d+(\.\d+)?$/);
    expect(numbers(low ?? '')[0]).toBeLessThanOrEqual(numbers(mean ?? '')[0] ?? NaN);
    expect(numbers(mean ?? '')[0]).toBeLessThanOrEqual(numbers(high ?? '')[0] ?? NaN);
    expect(cursorsOf(page)).toEqual({ a, b });
  });

  test('say a hole between them, and bounds where only extremes are known', async () => {
    const start = holeStart();
    const page = await pages.show(fake.url, `?span=4s&end=${start + 2n * SECOND}&cursors=${start - SECOND},${start + SECOND}&plot=test/hole:sine`);
    await drawn(page);
    await until('bounds', async () => (await text(page, '.measure-source')).endsWith('their min, max and mean, bounds of rms'));
    expect((await cell(page, 'holes')).replaceAll('\u202f', ' ')).toBe('1 hole, 500 samples missing');
    const [low, high] = [numbers(await cell(page, 'min'))[0] ?? NaN, numbers(await cell(page, 'max'))[0] ?? NaN];
    const mean = numbers(await cell(page, 'mean'));
    expect([mean.length, low < (mean[0] ?? NaN), (mean[0] ?? NaN) < high]).toEqual([1, true, true]);
  });

  test('that leave the window say where they are, and are brought back', async () => {
    const start = holeStart();
    const page = await pages.show(fake.url, `?span=2s&end=${start}&cursors=${start - 5n * SECOND},${start - SECOND}&plot=test/hole:sine`);
    await drawn(page);
    const away = page.locator('.stretch-line[data-cursor=a]');
    await until('a flag at the left edge', async () => (await away.getAttribute('data-edge')) === 'before');
    expect((await away.innerText()).replaceAll('\u202f', ' ')).toBe('◂ A 3 s');
    expect(await text(page, '.measure-source')).toBe('not all of the stretch is in the window');
    expect(await cell(page, 'mean')).toBe('–');
    await page.locator('.measure-show').click();
    await until('values', async () => (await cell(page, 'mean')) !== '–');
    expect(await page.locator('.stretch-line[data-edge]').count()).toBe(0);
    // A flag at an edge is dragged in.
    await page.goto(`${fake.url}/?span=2s&end=${start}&cursors=${start - 5n * SECOND},${start - SECOND}&plot=test/hole:sine`);
    await drawn(page);
    const [from, data] = [await flag(page, 'a'), await dataBox(page)];
    await page.mouse.move(from.x, from.y);
    await page.mouse.down();
    await page.mouse.move(data.x + 200, from.y, { steps: 4 });
    await page.mouse.up();
    await until('the line under the pointer', async () => Math.abs(await lineX(page, 'a') - 200) <= 1);
  });

  test('measure where nothing arrived, and say so', async () => {
    const start = holeStart();
    const page = await pages.show(fake.url, `?span=200ms&end=${start + SECOND / 3n}&cursors=${start + SECOND / 5n},${start + SECOND / 4n}&plot=test/hole:sine`);
    await until('the words', async () => (await text(page, '.measure-source')) === 'nothing arrived between the cursors');
    expect(await cell(page, 'min')).toBe('–');
  });

  test.each([[390, 844], [820, 1180], [1280, 720]])('have their whole read-out on a page of %i × %i pixels, and the plots keep room', async (width, height) => {
    const page = await pages.open(fake.url, '?span=10s&plot=test/hole:sine&plot=geo/grfo/seismogram:BHZ,test/chirp:a', { viewport: { width, height }, hasTouch: width < 1000 });
    await drawn(page);
    await page.keyboard.press('c');
    await until('three rows', async () => (await page.locator('#measure tbody tr').count()) === 3);
    const beyond = await page.locator('#measure :is(td, th, button, .measure-fact, .measure-source)').evaluateAll((all) => all
      .filter((each) => each instanceof HTMLElement && each.offsetWidth > 0 && (each.getBoundingClientRect().right > innerWidth + 0.5 || each.getBoundingClientRect().left < 0))
      .map((each) => each.textContent));
    expect(beyond).toEqual([]);
    // What has to be scrolled for is said.
    const hidden = await page.locator('.measure-rows').evaluate((rows) => rows.scrollHeight > rows.clientHeight + 1);
    await until('its words', async () => (await text(page, '.measure-source')).includes('scroll for all') === hidden);
    expect(await page.locator('#stage').evaluate((stage) => stage.clientHeight)).toBeGreaterThanOrEqual(height * 0.3);
  });
});
