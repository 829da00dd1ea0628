/**
 * The page in a real browser over the fake server, whose streams and refusals are known to the word. Holes are in
 * `gaps.test.ts`, what only real streams can show in `demo.test.ts`.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { connection, drawn, draws, hide, paused, query, until } from './browser';
import { inkedRows, moves, pixels, still, sum } from './canvas';
import { talkOf } from './overheard';
import { Pages } from './pages';
import { Viewer } from './viewer';

const HOLE = '?span=10s&plot=test/hole:sine';
/** Nothing is lost of it, so its past never changes. */
const CHIRP = '?span=10s&plot=test/chirp:a';

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer(); });
afterAll(() => fake.close());

const show = (query = ''): Promise<Page> => pages.show(fake.url, query);

/** Waits until somebody else was sent so many frames: time enough for what must not happen. */
async function witnessed(frames: number): Promise<void> {
  const witness = new Viewer(fake.url, { trace: { stream: 'test/hole', channel: 'sine' }, spanNs: 1_000_000_000n });
  await until(`${frames} frames`, () => witness.frames >= frames);
  witness.close();
}

describe('the list', () => {
  test('narrows as one types, and Enter plots what was found', async () => {
    const page = await show('?span=10s');
    const all = await page.locator('.row-stream').count();
    const name = await page.locator('.row-stream .row-label').last().innerText();
    await page.keyboard.press('/');
    await page.keyboard.type(name);
    await until('fewer rows', async () => (await page.locator('.row-stream').count()) < all);
    expect(await page.locator('#list-count').innerText()).toMatch(/^\d+ of \d+$/);
    await page.keyboard.press('Enter');
    await until('a plot', async () => (await page.locator('.plot').count()) === 1);
    expect(await page.locator('.plot-title').innerText()).toContain(name);
    await drawn(page);
  });

  test('is walked with the arrows, opens channels, lays them over', async () => {
    const page = await show(HOLE);
    await page.keyboard.press('/');
    await page.keyboard.type('chirp');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Shift+Enter');
    await until('an overlay', async () => (await page.locator('.plot .readout').count()) === 3);
    expect(await page.locator('.plot').count()).toBe(1);
    await until('an address with both', () => query(page).getAll('plot').join().includes('test/chirp'));
  });

  test('can be dragged onto a plot', async () => {
    const page = await show(HOLE);
    await drawn(page);
    const row = page.locator('.row-stream', { hasText: 'injected' }).first();
    await row.hover();
    await page.mouse.down();
    await page.mouse.move(600, 300, { steps: 4 });
    expect(await page.locator('#drag-label').innerText()).toBe('test/injected');
    await page.mouse.move(700, 400, { steps: 4 });
    await page.mouse.up();
    await until('an overlay', async () => (await page.locator('.plot .readout').count()) === 2);
  });

  test('says nothing plotted, and a fresh address plots by itself', async () => {
    const page = await show('?span=10s');
    expect(await page.locator('#notice').innerText()).toContain('Nothing plotted');
    await page.goto(`${fake.url}/`);
    await until('plots', async () => (await page.locator('.plot').count()) > 0);
  });
});

describe('time', () => {
  test('moves while following and stands while paused', async () => {
    const page = await show(CHIRP);
    await drawn(page);
    await moves(page);
    await page.keyboard.press('Space');
    expect(await paused(page)).toBe(true);
    const first = await still(page);
    await witnessed(30);
    expect(await pixels(page)).toBe(first);
    await page.keyboard.press('f');
    expect(await paused(page)).toBe(false);
    await until('other pixels again', async () => (await pixels(page)) !== first);
  });

  test('zooms with the wheel and pans with a drag, into the past and back', async () => {
    const page = await show(CHIRP);
    await drawn(page);
    const box = await page.locator('.plot-body').first().boundingBox();
    if (box === null) throw new Error('a plot has a box');
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    await page.mouse.move(x, y);
    await page.mouse.wheel(0, -400);
    await until('a narrower window', () => (query(page).get('span') ?? '10s') !== '10s');
    expect(await paused(page)).toBe(false);
    await page.mouse.down();
    await page.mouse.move(x + 200, y, { steps: 5 });
    await page.mouse.up();
    expect(await paused(page)).toBe(true);
    await until('an end in the address', () => query(page).get('end') !== null);
    // Time goes on meanwhile: each drag back reaches twice as far as the one before.
    while (await paused(page)) {
      await page.mouse.move(x, y);
      await page.mouse.wheel(0, 400);
      await page.mouse.down();
      await page.mouse.move(x - 400, y, { steps: 5 });
      await page.mouse.up();
    }
  });

  test('shows a cursor on every plot', async () => {
    const page = await show(`${HOLE}&plot=test/injected:sine`);
    await drawn(page);
    await page.keyboard.press('Space');
    await page.locator('.plot-body').first().hover({ position: { x: 400, y: 120 } });
    await until('two cursors', async () => (await page.locator('.cursor-tag:visible').count()) === 2);
    expect(await page.locator('.cursor-tag').first().innerText()).toMatch(/\d\d:\d\d:\d\d\.\d+\n.*(V|nothing here)/);
  });
});

describe('the address', () => {
  test('opened elsewhere shows the same', async () => {
    const page = await show(`${HOLE}&plot=test/chirp:a,test/chirp:b`);
    await drawn(page);
    await page.keyboard.press('Space');
    await page.keyboard.press('y');
    await until('a held axis in the address', () => page.url().includes('y=held'));
    await still(page);
    const other = await show(new URL(page.url()).search);
    await drawn(other);
    expect(await other.locator('.plot').count()).toBe(await page.locator('.plot').count());
    await until('the same picture', async () => (await pixels(other)) === (await pixels(page)));
  });
});

describe('plots', () => {
  test('are closed, shown alone, resized', async () => {
    const page = await show(`${HOLE}&plot=test/injected:sine&plot=test/chirp:a`);
    await drawn(page);
    await page.locator('.plot-body').nth(1).dblclick({ position: { x: 200, y: 60 } });
    await until('one plot alone', async () => (await page.locator('.plot:visible').count()) === 1);
    // A hole that passes under the pointer would show its card, and Escape would close that.
    await page.mouse.move(0, 0);
    await page.keyboard.press('Escape');
    await until('all three', async () => (await page.locator('.plot:visible').count()) === 3);
    await page.locator('.plot').first().focus();
    await page.keyboard.press('x');
    await until('two left', async () => (await page.locator('.plot').count()) === 2);
    const corner = await page.locator('.resize').first().boundingBox();
    if (corner === null) throw new Error('a plot has a corner');
    await page.mouse.move(corner.x + 10, corner.y + 10);
    await page.mouse.down();
    await page.mouse.move(corner.x - 400, corner.y + 10, { steps: 5 });
    await page.mouse.up();
    await until('a width in the address', () => /;w=\d/.test(decodeURIComponent(page.url())));
  });

  test('of two units have an axis at each side', async () => {
    const page = await show('?span=10s&plot=geo/grfo/seismogram:BHZ,test/chirp:a');
    await drawn(page);
    await until('two units', async () => (await page.locator('.axis-unit').allInnerTexts()).join() === 'counts,V');
    await moves(page);
  });

  test('of a small signal on a large offset keep its shape, and labels that are told apart', async () => {
    const page = await show('?span=10s&plot=test/carrier:f');
    await drawn(page);
    await until('a head that names the zero', async () => (await page.locator('.axis-unit').first().innerText()).replaceAll('\u202f', ' ').startsWith('mHz from 499.654 096'));
    // Twenty turns within ten seconds climb by more than a pixel from column to column; a flat line would not.
    await until('a climbing line', async () => {
      const rows = await inkedRows(page, { trace: 0 });
      return rows.length > 0 && sum(rows) > 4 * rows.length;
    });
  });

  test.each([[390, 844], [820, 1180], [1280, 720], [1920, 1080]])('fit a page of %i × %i pixels when a third comes', async (width, height) => {
    const page = await pages.open(fake.url, HOLE, { viewport: { width, height } });
    await drawn(page);
    for (const name of ['chirp', 'carrier']) {
      await page.keyboard.press('/');
      await page.keyboard.type(name);
      await page.keyboard.press('Enter');
      await until(`a plot of ${name}`, async () => (await page.locator('.plot', { hasText: name }).count()) === 1);
      await page.keyboard.press('Escape');
      await page.keyboard.press('Escape');
    }
    const below = (): Promise<readonly number[]> => page.locator('.plot').evaluateAll((plots) => plots.map((plot) => plot.getBoundingClientRect().bottom - innerHeight));
    await until('all plots on the screen', async () => (await below()).every((beyond) => beyond <= 0));
    expect(await page.locator('.plot').count()).toBe(3);
  });

  test('come into view where the page is too low for all', async () => {
    const page = await pages.open(fake.url, `${HOLE}&plot=test/chirp:a`, { viewport: { width: 1200, height: 420 } });
    await drawn(page);
    await page.keyboard.press('/');
    await page.keyboard.type('carrier');
    await page.keyboard.press('Enter');
    const third = page.locator('.plot').nth(2);
    await until('the third plot on the screen', async () => (await third.count()) === 1 && await third.evaluate((plot) => plot.getBoundingClientRect().bottom <= innerHeight));
  });

  test('beyond those a page holds are said to be left out', async () => {
    const page = await show(`?span=10s&${Array.from({ length: 26 }, () => 'plot=test/chirp:a').join('&')}`);
    await until('the words', async () => (await page.locator('#toast').innerText()).includes('left out 2 of 26 plots'));
    expect(await page.locator('.plot').count()).toBe(24);
  });

  test.each([[390, 844], [1440, 900]])('of five traces have their whole legend, and a chart, on %i × %i pixels', async (width, height) => {
    const traces = ['geo/grfo/seismogram:BHZ', 'geo/grfo/seismogram:BHN', 'geo/grfo/seismogram:BHE', 'hall/microphones/stereo:left', 'hall/microphones/stereo:right'].join();
    const page = await pages.open(fake.url, `?span=10s${`&plot=${traces}`.repeat(4)}`, { viewport: { width, height }, hasTouch: width < 1000 });
    await drawn(page);
    const cut = await page.locator('.readouts').first().evaluate((readouts) => [readouts.scrollWidth - readouts.clientWidth, readouts.scrollHeight - readouts.clientHeight]);
    expect(cut).toEqual([0, 0]);
    await until('a chart that ends with its box', () => page.locator('.plot-body').first().evaluate((body) => {
      const chart = body.querySelector('.uplot');
      return body.clientHeight >= 100 && chart !== null && Math.abs(chart.scrollHeight - body.clientHeight) <= 1;
    }));
  });

  test('of a long figure show its unit', async () => {
    const page = await show(`?span=10s${'&plot=test/carrier:f'.repeat(4)}`);
    await drawn(page);
    const cut = await page.locator('.readouts').first().evaluate((readouts) => readouts.scrollWidth - readouts.clientWidth);
    expect([cut, await page.locator('.readout-unit').first().innerText()]).toEqual([0, 'MHz']);
  });

  test('of a silent stream say so, and its last value in its own unit', async () => {
    const page = await show('?span=5s&plot=lab/old/pump:pressure');
    await until('its last value', async () => (await page.locator('.readout').innerText()).endsWith('µPa'));
    expect(await page.locator('.plot-note').innerText()).toBe('no samples in this window');
  });

  test('of a fresh address begin with the first', async () => {
    const page = await pages.open(fake.url, '', { viewport: { width: 390, height: 700 } });
    await until('plots', async () => (await page.locator('.plot').count()) > 3);
    expect(await page.locator('.plot').first().evaluate((plot) => plot.getBoundingClientRect().top >= (document.querySelector('#stage')?.getBoundingClientRect().top ?? NaN))).toBe(true);
  });

  test('that stand still leave the bar of a phone as it was', async () => {
    const page = await pages.open(fake.url, CHIRP, { viewport: { width: 390, height: 844 }, hasTouch: true });
    await drawn(page);
    // From the pace down to the plots: the sentence above it has as many lines as the bus has to say.
    const bar = (): Promise<number> => page.locator('#stage').evaluate((stage) => stage.getBoundingClientRect().top - (document.querySelector('#pace')?.getBoundingClientRect().top ?? NaN));
    const before = await bar();
    await page.keyboard.press('Space');
    await until('the time', async () => /\d\d:\d\d/.test(await page.locator('#pace-text').innerText()));
    expect(await bar()).toBe(before);
  });

  test.each([390, 820, 1200])('fit a page %i pixels wide, figures and tools too', async (width) => {
    const page = await pages.open(fake.url, `${HOLE}&plot=test/chirp:a,test/chirp:b`, { viewport: { width, height: 844 }, hasTouch: width < 1000 });
    await drawn(page);
    const beyond = await page.evaluate(() => [...document.querySelectorAll<HTMLElement>('#top-bar > *, #tools > *, .plot, .readout, .plot-title')]
      .filter((element) => element.offsetWidth > 0 && (element.getBoundingClientRect().right > innerWidth || element.getBoundingClientRect().left < 0))
      .map((element) => `${element.id}.${element.className}`));
    expect(beyond).toEqual([]);
    const cut = await page.locator('.readouts').evaluateAll((all) => all.map((readouts) => readouts.scrollWidth - readouts.clientWidth));
    expect(cut).toEqual([0, 0]);
  });

  test('are printed as a clean sheet, in ink on white', async () => {
    const page = await show(HOLE);
    await drawn(page);
    await page.keyboard.press('a');
    await until('gaps', async () => (await page.locator('#gap-list li').count()) > 3);
    await page.keyboard.press('Space');
    await still(page);
    await page.emulateMedia({ media: 'print' });
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    for (const screenOnly of ['#list', '#tools', '#inject', '.plot-tools']) expect(await page.locator(screenOnly).isVisible(), screenOnly).toBe(false);
    const ground = await page.locator('.plot').evaluate((plot) => getComputedStyle(plot).backgroundColor);
    expect(ground).toBe('rgb(255, 255, 255)');
    // A printer does not wait: the picture is in the colours of the sheet already.
    expect(sum(await inkedRows(page, { trace: 0 }))).toBeGreaterThan(0);
    expect(sum(await inkedRows(page, { place: 'receiver' }))).toBeGreaterThan(0);
    // The account comes behind the plots, not over them.
    const [plot, account] = [await page.locator('.plot').boundingBox(), await page.locator('#account').boundingBox()];
    expect(account?.y).toBeGreaterThanOrEqual((plot?.y ?? NaN) + (plot?.height ?? NaN));
    expect(await page.locator('#gap-list li:visible').count()).toBeLessThanOrEqual(12);
    await page.evaluate(() => dispatchEvent(new Event('afterprint')));
    await page.emulateMedia({ media: 'screen' });
    await until('the screen as it was', async () => (await page.locator('.plot').evaluate((plot) => getComputedStyle(plot).backgroundColor)) !== ground);
  });

  test('list their keys without being in the way', async () => {
    const page = await show(CHIRP);
    await page.keyboard.press('?');
    expect(await page.locator('#keys').innerText()).toContain('next gap');
    await page.keyboard.press('Space');
    expect(await paused(page)).toBe(true);
    await page.keyboard.press('Escape');
    expect(await page.locator('#keys').isVisible()).toBe(false);
  });
});

describe('the server', () => {
  test('comes back after a restart, and the page with it', async () => {
    const first = await startFakeServer();
    const page = await pages.open(first.url, HOLE);
    await drawn(page);
    await first.close();
    await until('the page to say so', async () => (await page.locator('#sentence').innerText()).includes('No connection'));
    expect(await connection(page)).toBe('waiting');
    const second = await startFakeServer({ port: first.port });
    await until('a connection', async () => (await connection(page)) === 'open');
    await moves(page);
    expect(await page.locator('.plot-title').innerText()).toBe('test/hole');
    await page.close();
    await second.close();
  });

  test('sends nothing to a hidden page, which draws nothing', async () => {
    const page = await show(HOLE);
    await drawn(page);
    const talk = talkOf(page);
    await hide(page, true);
    // What was on its way comes yet.
    await until('an end of its frames', async () => {
      const last = talk.frames;
      await witnessed(10);
      return talk.frames === last;
    });
    const [frames, drawings] = [talk.frames, await draws(page)];
    await witnessed(30);
    expect(talk.frames).toBe(frames);
    expect(await draws(page)).toBe(drawings);
    await hide(page, false);
    await until('frames again', async () => (await draws(page)) > drawings + 2);
  });

  test('may send frames that cannot be read: the page says so and goes on', async () => {
    const spoiling = await startFakeServer({ spoil: 3 });
    const page = await pages.open(spoiling.url, HOLE);
    await until('the reason', async () => (await page.locator('#toast').innerText()).includes('view frame refused'));
    // Two credits that never came back would have ended it.
    await until('frames after many refusals', async () => (await draws(page)) > 20);
    await page.close();
    await spoiling.close();
  });

  test('whose archive fills its disk is said to', async () => {
    const full = await startFakeServer({ fullDisk: true });
    const page = await pages.open(full.url, HOLE);
    await until('the level', async () => (await page.locator('#sentence').innerText()).replaceAll('\u202f', ' ').includes('archive disk 83 % full, 17.0 GB free'));
    await page.close();
    await full.close();
  });

  test('without streams says so, and how to publish one', async () => {
    const empty = await startFakeServer({ streams: 0 });
    const page = await pages.open(empty.url, '');
    await until('the words', async () => (await page.locator('#list-empty').innerText()) === 'No live streams.');
    expect(await page.locator('#notice').innerText()).toMatch(/No streams yet[^]*tallycast pub/);
    await page.close();
    await empty.close();
  });

  test.each([
    ['that is older than the page is said to be', { pageProtocol: 0 }, 'older than this page'],
    ['that refuses is said to refuse', { forbid: true }, 'No permission'],
  ])('%s', async (_, options, words) => {
    const other = await startFakeServer(options);
    const page = await pages.open(other.url, HOLE);
    await until(words, async () => (await page.locator('#notice').innerText()).includes(words));
    await page.close();
    await other.close();
    // The browser tells of every answer that refuses.
    expect(pages.errors.splice(0).filter((error) => !error.includes('403'))).toEqual([]);
  });
});
