/**
 * The real page on the real demo: recorded signals and waveforms over multicast, the monitor server, the
 * recorder, each a process of its own. At the end every account must be closed, balanced and explained.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { GapDetail } from '../../src/wire/messages';
import { gapsOf, streamOf } from './api';
import { drawn, paused, query, until, windowOf } from './browser';
import { cleanUp, startDemo, type Demo } from './bus';
import { between, covered, dataBox, inkedRows, MOST, moves, still, sum, type Box } from './canvas';
import { choose, row } from './list';
import { Pages } from './pages';
import { swipe } from './touch';

const SECOND = 1_000_000_000n;
const SINE = 'plot=test/sine:ch0';
/** A datagram of the demo's sine mostly holds five samples; one sample would be three pixels wide. */
const WIDE_SAMPLES = 4;

const pages = new Pages();
let demo: Demo;

beforeAll(async () => { demo = await startDemo(); });
afterAll(cleanUp);

/** Waits until the sine has so many more samples. */
async function later(samples: number): Promise<void> {
  const { nextIndex } = await streamOf(demo.url, 'test/sine');
  await streamOf(demo.url, 'test/sine', (stream) => stream.nextIndex > nextIndex + samples);
}

const show = (address = ''): Promise<Page> => pages.show(demo.url, address);

describe('the list', () => {
  test('shows every stream of the demo with its rate, and a fresh address plots by itself', async () => {
    const page = await show();
    for (const name of ['ecg', 'chime', 'cpu', 'udp', 'sine', 'chirp']) await until(name, async () => (await row(page, name).count()) === 1);
    // Measured over some seconds: 360 samples a second of the recording, as far as its publisher has a processor.
    await until('a rate', async () => /^[\d.]*[1-9][\d.]*\sk?Hz · mV/.test(await row(page, 'ecg').locator('.row-meta').innerText()));
    await drawn(page);
    await moves(page);
  });

  test('finds a stream as one types; Enter plots it, Shift Enter lays another over', async () => {
    const page = await show('?span=10s');
    await choose(page, 'ecg', 'Enter');
    await until('a plot', async () => (await page.locator('.plot').count()) === 1);
    expect(await page.locator('.plot-title').innerText()).toContain('ecg');
    await until('its unit', async () => (await page.locator('.axis-unit').first().innerText()) === 'mV');
    await choose(page, 'sine', 'Shift+Enter');
    await until('two units', async () => (await page.locator('.axis-unit').allInnerTexts()).join() === 'mV,V');
    await drawn(page);
    await moves(page);
  });

  test('gives a stream to be dragged to an empty place', async () => {
    const page = await show(`?span=10s&${SINE}`);
    await drawn(page);
    await row(page, 'chirp').hover();
    await page.mouse.down();
    await page.mouse.move(700, 400, { steps: 4 });
    expect(await page.locator('#drag-label').innerText()).toBe('test/chirp');
    await page.mouse.up();
    await until('the stream in the plot', () => query(page).getAll('plot').join().includes('test/chirp'));
  });
});

describe('time', () => {
  test('moves, is held by space, and goes on with f', async () => {
    const page = await show(`?span=5s&${SINE}`);
    await drawn(page);
    await moves(page);
    await page.keyboard.press('Space');
    expect(await paused(page)).toBe(true);
    // On a busy machine the last samples of the window come after it was held.
    await later(1_000);
    const picture = await still(page);
    await later(1_000);
    expect(await still(page)).toBe(picture);
    await page.keyboard.press('f');
    expect(await paused(page)).toBe(false);
    await moves(page);
  });

  test('is zoomed by the wheel and panned by a drag, into the past and back', async () => {
    const page = await show(`?span=10s&${SINE}`);
    await streamOf(demo.url, 'test/sine', (stream) => stream.nextIndex > stream.firstIndex + 8_000);
    await drawn(page);
    const { x, y } = middle(await dataBox(page));
    await page.mouse.move(x, y);
    await page.mouse.wheel(0, -400);
    await until('a narrower window', () => windowOf(page).spanNs < 5n * SECOND);
    expect(await paused(page)).toBe(false);
    await drag(page, { x, y }, 300);
    expect(await paused(page)).toBe(true);
    await until('an end in the address', () => windowOf(page).endNs !== null);
    await still(page);
    // What was on its way is drawn once it is there.
    await until('the sine', async () => covered(await inkedRows(page, { trace: 0 })) > MOST);
    // Time goes on meanwhile: each drag back reaches twice as far as the one before.
    while (await paused(page)) {
      await page.mouse.wheel(0, 400);
      await drag(page, { x, y }, -400);
    }
    await moves(page);
  });

  test('is panned by a finger and zoomed by two', async () => {
    const page = await pages.open(demo.url, `?span=2s&${SINE}`, { hasTouch: true, viewport: { width: 800, height: 600 } });
    await drawn(page);
    const { x, y } = middle(await dataBox(page));
    await swipe(page, [{ from: { x, y }, to: { x: x + 150, y } }]);
    expect(await paused(page)).toBe(true);
    await until('an end in the address', () => windowOf(page).endNs !== null);
    expect(windowOf(page).spanNs).toBe(2n * SECOND);
    await still(page);
    // Fingers that part to twice their distance show half the time.
    await swipe(page, [{ from: { x: x - 60, y }, to: { x: x - 120, y } }, { from: { x: x + 60, y }, to: { x: x + 120, y } }]);
    await until('half the window', () => windowOf(page).spanNs < 1_030_000_000n && windowOf(page).spanNs > 970_000_000n);
    await still(page);
    // What was on its way is drawn once it is there.
    await until('the sine', async () => covered(await inkedRows(page, { trace: 0 })) > MOST);
  });
});

describe('loss that was planted with the switch', () => {
  test('shows as holes whose card tells stage, count and evidence', async () => {
    const page = await show(`?span=1s&${SINE};y=fixed:-1.2:1.2`);
    await drawn(page);
    const lose = page.locator('#inject');
    await lose.click();
    await until('the switch to be on', async () => (await lose.getAttribute('aria-checked')) === 'true');
    await until('the sentence to say so', async () => /lost \d[\d\s.]*[kM]? of/.test((await page.locator('#sentence').innerText()).replaceAll('\u202f', ' ')));
    const gap = await settledGap('test/sine');
    await lose.click();
    await until('the switch to be off', async () => (await lose.getAttribute('aria-checked')) === 'false');

    const spanNs = SECOND / 4n;
    const from = gap.from - spanNs / 2n;
    await page.goto(`${demo.url}/?span=250ms&end=${from + spanNs}&${SINE};y=fixed:-1.2:1.2`);
    await drawn(page);
    await until('the hole', async () => sum(await inkedRows(page, { place: 'injected' })) > 0);
    await still(page);
    const share = (time: bigint): number => Number(time - from) / Number(spanNs);
    const box = await dataBox(page);
    await page.mouse.move(box.x + box.width * share((gap.from + gap.to) / 2n), box.y + box.height / 3);
    const card = page.locator('#gap-card');
    await until('the evidence', async () => (await card.innerText()).includes('named by the publisher'));
    const text = (await card.innerText()).replaceAll('\u202f', ' ');
    expect(text).toContain('injected');
    expect(text).toContain(`${gap.samples} samples missing`);
    expect(text).toContain(`test/sine from index`);
    const inside = between(await inkedRows(page, { trace: 0 }), share(gap.from) + 2 / box.width, share(gap.to) - 2 / box.width);
    expect(inside.length).toBeGreaterThan(5);
    expect(sum(inside)).toBe(0);
  });

  test('is in the account, which balances, and in its list of gaps', async () => {
    const page = await show(`?span=5s&${SINE}`);
    await drawn(page);
    await page.keyboard.press('a');
    await until('a verdict', () => page.locator('.verdict').isVisible());
    expect(await page.locator('#law').getAttribute('data-balanced')).toBe('true');
    const injected = page.locator('.rung[data-place="injected"]');
    expect(await injected.getAttribute('data-zero')).toBeNull();
    await until('gaps', async () => (await page.locator('#gap-list').innerText()).includes('injected'));
    await page.locator('.gap-item').first().click();
    await until('the card of that gap', () => page.locator('#gap-card').isVisible());
    expect(await paused(page)).toBe(true);
  });

  test('is at its place of the way, whose finding has the evidence and leads to the guide', async () => {
    const page = await show(`?span=5s&${SINE}`);
    await drawn(page);
    await page.keyboard.press('a');
    const publisher = page.locator('.path-place[data-at="publisher"]');
    await until('loss at the publisher', async () => /^publisher: [\d\s]+ elements lost/.test((await publisher.count()) === 0 ? '' : await publisher.getAttribute('aria-description') ?? ''));
    // The demo records into an archive, which its monitor reads.
    expect(await page.locator('.path-place').count()).toBe(9);
    await until('what arrives', async () => /^[\d.]*[1-9][\d.]*\s(k\s)?samples\/s arrive$/.test(await page.locator('.path-flow[data-at="arriving"]').innerText()));
    await publisher.focus();
    await page.keyboard.press('Enter');
    await until('the evidence', async () => (await page.locator('#findings').innerText()).includes('named by the publisher'));
    expect(await page.locator('#findings').innerText()).toContain('Planted on purpose');
    await page.goto(new URL(await page.locator('.finding-guide').getAttribute('href') ?? '', demo.url).href);
    expect(await page.locator('h2:target').innerText()).toBe('injected');
    expect(await page.evaluate(() => document.documentElement.dataset['theme'])).toBe('dark');
  });

  /** Returns a planted hole that is settled and wide enough to look into. */
  async function settledGap(stream: string): Promise<GapDetail> {
    let found: GapDetail | undefined;
    await until('a settled hole', async () => {
      found = (await gapsOf(demo.url, stream)).find((gap) => gap.unsettled === 0 && gap.lost.has('injected') && gap.samples >= WIDE_SAMPLES);
      return found !== undefined;
    });
    if (found === undefined) throw new Error('found a moment ago');
    return found;
  }
});

test('every account of the demo closes, balanced and explained', async () => {
  const { code, said, objects } = await demo.end();
  expect(code, said).toBe(0);
  expect(objects.length).toBeGreaterThanOrEqual(12);
});

const middle = (box: Box): { x: number; y: number } => ({ x: box.x + box.width / 2, y: box.y + box.height / 2 });

async function drag(page: Page, { x, y }: { x: number; y: number }, by: number): Promise<void> {
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x + by, y, { steps: 5 });
  await page.mouse.up();
}
