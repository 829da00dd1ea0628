/**
 * Images and spectra, over the fake server's fields: a heated plate of which a corner is not seen, a camera of 8 bits, a
 * spectrum with a line at 50 Hz, a field without a number.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { choose } from './list';
import { paused, query, until } from './browser';
import { Pages } from './pages';

const IMAGE = '?span=10s&plot=plate/image:temperature;panel=image';
const SPECTRUM = '?span=10s&plot=lab/spectrum:x;panel=spectrum';

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer({ fields: true }); });
afterAll(() => fake.close());

const show = (query = '', options = {}): Promise<Page> => pages.show(fake.url, query, options);
const value = (page: Page): Promise<string> => page.locator('.sample-value').innerText();
const note = (page: Page): Promise<string> => page.locator('.plot-note').innerText();
const says = (page: Page, what: RegExp): Promise<void> => until(String(what), async () => what.test(await value(page)));
const plots = (page: Page): readonly string[] => query(page).getAll('plot');

/** The colour of a point of the panel as shares of its canvas. */
const colour = (page: Page, across: number, down: number): Promise<readonly number[]> => page.evaluate(([x, y]) => {
  const canvas = document.querySelector<HTMLCanvasElement>('.sample-canvas');
  const pen = canvas?.getContext('2d') ?? null;
  if (canvas === null || pen === null) return [];
  return [...pen.getImageData(Math.round(x * canvas.width), Math.round(y * canvas.height), 1, 1).data];
}, [across, down] as const);

/** A point of the panel, wherever it lies by now. */
async function pointOf(page: Page, across: number, down: number): Promise<{ readonly x: number; readonly y: number }> {
  const box = await page.locator('.sample-canvas').boundingBox();
  if (box === null) throw new Error('a canvas has a box');
  return { x: box.x + box.width * across, y: box.y + box.height * down };
}

/** Points at the panel until the readout says so: it may still be laid out. */
const point = (page: Page, across: number, down: number, what: RegExp): Promise<void> => until(String(what), async () => {
  const { x, y } = await pointOf(page, across, down);
  await page.mouse.move(x, y);
  return what.test(await value(page));
});

/** Where the picture shows the row and the column of its readout: walks there with the keys. */
async function walk(page: Page, keys: readonly (readonly [string, number])[]): Promise<void> {
  for (const [key, times] of keys) for (let k = 0; k < times; k += 1) await page.keyboard.press(key);
}

describe('an image', () => {
  test('shows the newest sample, and the value at a place that keys move', async () => {
    const page = await show(IMAGE);
    await says(page, /^row 32, column 48: \d+\.\d °C$/);
    expect(await note(page)).toMatch(/^\d\d:\d\d:\d\d\.\d{3} · 64 × 96/);
    await page.locator('.sample-canvas').focus();
    await walk(page, [['ArrowLeft', 4], ['ArrowUp', 2], ['Shift+ArrowLeft', 2]]);
    // The heater is at row 32 and column 24: here 200 °C and what the wandering spot adds.
    await says(page, /^row 30, column 24: 1\d\d\.\d °C$/);
    expect(await paused(page)).toBe(false);
    await walk(page, [['Shift+ArrowUp', 9], ['Shift+ArrowRight', 9]]);
    await says(page, /^row 0, column 95: no number$/);
  });

  test('follows the pointer, and is painted in the colours of its values', async () => {
    const page = await show(IMAGE, { viewport: { width: 1000, height: 600 } });
    await says(page, /^row 32/);
    await until('colours', async () => (await colour(page, 0.5, 0.3))[3] === 255);
    await point(page, 0.45, 0.3, /^row (?!32)\d+, column (?!48)\d+: \d+\.\d °C$/);
  });

  test('is looked at with a finger', async () => {
    const page = await show(IMAGE, { viewport: { width: 390, height: 844 }, hasTouch: true });
    await says(page, /^row 32/);
    await until('another place', async () => {
      const { x, y } = await pointOf(page, 0.4, 0.4);
      await page.touchscreen.tap(x, y);
      return /^row (?!32)\d+, column (?!48)\d+: /.test(await value(page));
    });
  });

  test('of 8-bit elements has their values, one without numbers says so', async () => {
    const page = await show('?span=10s&plot=plate/camera:light;panel=image');
    await says(page, /^row 24, column 32: \d+\.\d$/);
    const blind = await show('?span=10s&plot=plate/blind:nothing;panel=image');
    await says(blind, /^row 4, column 4: no number$/);
  });

  test('stays readable in a narrow panel', async () => {
    const page = await show(IMAGE);
    await says(page, /^row 32/);
    await page.setViewportSize({ width: 330, height: 420 });
    await point(page, 0.4, 0.4, /^row \d+, column \d+: \d+\.\d °C$/);
    expect(await note(page)).toContain('64 × 96');
  });

  test('of the past stands still', async () => {
    const page = await show(IMAGE);
    await says(page, /^row 32/);
    await page.keyboard.press('u');
    await page.keyboard.press('Space');
    await until('a held window', () => paused(page));
    await until('an end in the address', () => query(page).has('end'));
    const end = Number(BigInt(query(page).get('end') ?? 0) / 1_000_000n);
    await until('the sample of the end', async () => {
      const shown = await page.locator('.plot-note').getAttribute('title');
      const at = Date.parse(`${/, (\S+ \S+)\.\d+ UTC/.exec(shown ?? '')?.[1] ?? ''}Z`);
      return at <= end && at > end - 2_000;
    });
    const before = await note(page);
    await page.keyboard.press('f');
    await until('the newest sample', async () => (await note(page)) !== before);
  });

  test('of a channel that there is not says so', async () => {
    const page = await show('?span=10s&plot=plate/image:nothing;panel=image');
    await until('words', async () => /No stream or no channel/.test(await page.locator('.sample-empty').innerText()));
  });
});

describe('a spectrum', () => {
  test('has its peak named in Hz, and a value at the pointer', async () => {
    const page = await show(SPECTRUM);
    await says(page, /^peak 0\.000.94\d V²\/Hz at 49\.8 Hz$/);
    await page.locator('.sample-canvas').focus();
    await page.keyboard.press('ArrowRight');
    await says(page, / · 126\.0 Hz: /);
  });

  test('goes from logarithmic to linear and back, also along the frequency', async () => {
    const page = await show(SPECTRUM);
    await says(page, /^peak/);
    await page.locator('.plot').hover();
    await page.getByRole('button', { name: 'log x' }).click();
    await until('both', () => plots(page)[0] === 'lab/spectrum:x;panel=spectrum;log=xy');
    await page.getByRole('button', { name: 'log y' }).click();
    await until('x alone', () => plots(page)[0] === 'lab/spectrum:x;panel=spectrum;log=x');
    await says(page, /^peak .* at 49\.8 Hz/);
  });
});

describe('a waterfall', () => {
  const WATERFALL = '?span=1min&plot=lab/spectrum:x;panel=waterfall';

  test('shows what was before the page came, and tells a value in decibels', async () => {
    const page = await show(WATERFALL);
    await until('words', async () => /^257 elements · a column is the maximum of \d+(\.\d+)?\sms/.test(await note(page)));
    await point(page, 0.2, 0.7, /^\d\d:\d\d:\d\d\.\d\d, \d+\.\d Hz: −?\d+\.\d dB V²\/Hz/);
    // The left edge of the picture is a minute ago: its colours are there.
    await until('colours', async () => (await colour(page, 0.15, 0.5)).some((part) => part > 0));
  });

  test('holds, moves to earlier times and back, and follows again', async () => {
    const page = await show(WATERFALL);
    await point(page, 0.5, 0.7, / dB V²\/Hz/);
    await page.keyboard.press('Space');
    await until('a held window', () => paused(page));
    await says(page, / dB V²\/Hz/);
    const held = await value(page);
    await page.keyboard.press('ArrowLeft');
    await until('an earlier window', async () => (await value(page)).slice(0, 8) !== held.slice(0, 8));
    await says(page, / dB V²\/Hz/);
    await page.keyboard.press('f');
    await until('the newest', async () => !(await paused(page)));
    await says(page, / dB V²\/Hz/);
  });

  test('zooms to columns of another width', async () => {
    const page = await show(WATERFALL);
    const wide = async (): Promise<string> => /maximum of (\S+\s\S+)/.exec(await note(page))?.[1] ?? '';
    await until('columns', async () => (await wide()) !== '');
    const before = await wide();
    await page.keyboard.press('-');
    await page.keyboard.press('-');
    await until('wider columns', async () => (await wide()) !== before);
    await point(page, 0.5, 0.7, / dB V²\/Hz/);
  });

  test('of a matrix says so, and of a channel that there is not', async () => {
    const page = await show('?span=10s&plot=plate/line:profile;panel=waterfall');
    await point(page, 0.5, 0.5, /, element \d+(–\d+)?: /);
    const none = await show('?span=10s&plot=plate/image:nothing;panel=waterfall');
    await until('words', async () => /No stream or no channel/.test(await none.locator('.sample-empty').innerText()));
  });
});

describe('the list', () => {
  test('plots what the shape of a stream suggests, beside traces', async () => {
    const page = await show('?span=10s&plot=test/chirp:a');
    await choose(page, 'plate/image', 'Enter');
    await until('an image', () => plots(page)[1] === 'plate/image:temperature;panel=image');
    await choose(page, 'lab/spectrum', 'Shift+Enter');
    await until('a spectrum', () => plots(page)[2] === 'lab/spectrum:x;panel=spectrum');
    await choose(page, 'plate/line', 'Enter');
    await until('a vector', () => plots(page)[3] === 'plate/line:profile;panel=spectrum');
    expect(plots(page)[0]).toBe('test/chirp:a');
  });

  test('has the shape of a field, and its plot the other ways to show it', async () => {
    const page = await show(IMAGE);
    await says(page, /^row 32/);
    expect(await page.locator('.row-stream', { hasText: 'image' }).locator('.row-meta').innerText()).toContain('64 × 96');
    await page.locator('.plot').hover();
    await page.locator('.panel-choice').selectOption('spectrum');
    await until('lines', () => plots(page)[0] === 'plate/image:temperature;panel=spectrum');
    await says(page, /^peak .* at element/);
    await page.locator('.plot').hover();
    await page.locator('.panel-choice').selectOption('trend');
    await until('a trend', () => plots(page)[0] === 'plate/image:temperature');
    expect(await page.locator('.plot').count()).toBe(1);
  });
});
