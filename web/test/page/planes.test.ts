/**
 * Samples with more than two extents: the plane that is chosen, over the fake server's stacks and on the real server, which is
 * sent another shape in a new epoch.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { streamOf } from './api';
import { query, until } from './browser';
import { cleanUp, newFolder, publish, startMonitor } from './bus';
import { privateBus } from './command';
import { Pages } from './pages';

const pages = new Pages();

const plots = (page: Page): readonly string[] => query(page).getAll('plot');
const note = (page: Page): Promise<string> => page.locator('.plot-note').innerText();
const value = (page: Page): Promise<string> => page.locator('.sample-value').innerText();
const control = (page: Page): ReturnType<Page['locator']> => page.getByRole('group', { name: 'plane', exact: true });
const addressed = (page: Page, plot: string): Promise<void> => until(`the address to have ${plot}`, () => plots(page)[0] === plot);
const shows = (page: Page, plane: string): Promise<void> => until(`plane ${plane}`, async () => (await note(page)).includes(`plane ${plane}`));
const says = (page: Page, what: RegExp): Promise<void> => until(String(what), async () => what.test(await value(page)));
const missing = (page: Page): Promise<string> => page.locator('.plane-missing > span').innerText();

describe('over the fake server', () => {
  const STACK = '?span=10s&plot=plate/stack:temperature;panel=image';
  const SHOTS = '?span=10s&plot=plate/shots:temperature;panel=image';
  let fake: Awaited<ReturnType<typeof startFakeServer>>;
  beforeAll(async () => { fake = await startFakeServer({ fields: true }); });
  afterAll(() => fake.close());
  const show = (address: string, options = {}): Promise<Page> => pages.show(fake.url, address, options);

  test('a stack is gone through by buttons, keys and a typed index, and the address says where', async () => {
    const page = await show(STACK);
    await shows(page, '[0]');
    await control(page).getByRole('button', { name: 'next plane' }).click();
    await shows(page, '[1]');
    await addressed(page, 'plate/stack:temperature;panel=image;plane=1');
    await page.keyboard.press('>');
    await page.keyboard.press('>');
    await shows(page, '[3]');
    // Behind the last one there is none.
    await page.keyboard.press('>');
    expect(await control(page).getByRole('button', { name: 'next plane' }).getAttribute('aria-disabled')).toBe('true');
    await page.keyboard.press('<');
    await shows(page, '[2]');
    const index = control(page).getByLabel('plane, 0 to 3');
    await index.focus();
    await page.keyboard.press('ArrowDown');
    await shows(page, '[1]');
    await index.fill('7');
    await index.press('Enter');
    await shows(page, '[3]');
    await addressed(page, 'plate/stack:temperature;panel=image;plane=3');
    expect(await index.inputValue()).toBe('3');
    expect(await page.locator('.sample-canvas').getAttribute('aria-label')).toBe('Image of plate/stack, plane [3]; arrow keys move the place whose value is shown');
  });

  test('a plane is the same after a reload, and in the other ways to show its channel', async () => {
    const page = await show(`${STACK};plane=2`);
    await shows(page, '[2]');
    await page.reload();
    await shows(page, '[2]');
    for (const kind of ['spectrum', 'waterfall', 'image']) {
      await page.locator('.plot').hover();
      await page.locator('.panel-choice').selectOption(kind);
      await addressed(page, `plate/stack:temperature;panel=${kind};plane=2`);
      await shows(page, '[2]');
    }
  });

  test('planes of two extents have two indices, of which the last one runs fastest', async () => {
    const page = await show(`${SHOTS};plane=0,2`);
    await shows(page, '[0, 2]');
    await control(page).getByRole('button', { name: 'next plane' }).click();
    await shows(page, '[1, 0]');
    await addressed(page, 'plate/shots:temperature;panel=image;plane=1,0');
    expect(await page.locator('.plane-count').innerText()).toBe('of 2 × 3');
    const second = control(page).getByLabel('plane, index 2 of 2, 0 to 2');
    await second.fill('1');
    await second.press('Enter');
    await shows(page, '[1, 1]');
  });

  test('a finger steps, too, and what has one plane has no choice', async () => {
    const page = await show(STACK, { viewport: { width: 390, height: 844 }, hasTouch: true });
    await shows(page, '[0]');
    await control(page).getByRole('button', { name: 'next plane' }).tap();
    await shows(page, '[1]');
    const plain = await show('?span=10s&plot=plate/image:temperature;panel=image');
    await says(plain, /^row 32/);
    expect(await control(plain).count()).toBe(0);
  });

  test('a plane that is not there is said, and the nearest is kept on request alone', async () => {
    const page = await show(`${STACK};plane=9`);
    await shows(page, '[3]');
    expect([await missing(page), plots(page)[0]]).toEqual(['There is no plane [9]: this channel has 4 planes. The nearest, [3], is shown.', 'plate/stack:temperature;panel=image;plane=9']);
    await page.getByRole('button', { name: 'Keep [3]' }).click();
    await addressed(page, 'plate/stack:temperature;panel=image;plane=3');
    await until('no remark', async () => !(await page.locator('.plane-missing').isVisible()));
    const flat = await show('?span=10s&plot=plate/image:temperature;panel=image;plane=1');
    await until('words', async () => (await missing(flat)) === 'There is no plane [1]: a sample of this channel is one plane, which is shown.');
    await flat.getByRole('button', { name: 'Keep it' }).click();
    await addressed(flat, 'plate/image:temperature;panel=image');
  });

  test('those who follow a view see the plane that one of them chooses', async () => {
    const plot = { panel: 'image', traces: [{ stream: 'plate/stack', channel: 'temperature' }], plane: [2] };
    fake.views.put('stack', { window: { span_ns: '#10000000000#', end_ns: null }, order: ['p1'], 'plot/p1': plot }, 'anna');
    const [writer, follower] = [await show('?view=stack'), await show('?view=stack')];
    await shows(writer, '[2]');
    await shows(follower, '[2]');
    await writer.keyboard.press('<');
    await shows(follower, '[1]');
  });

  test('a file of values is of the first element of the plane', async () => {
    const page = await show(`${STACK};plane=2`);
    await shows(page, '[2]');
    await page.keyboard.press('e');
    const asked = page.waitForRequest('**/api/export?*');
    await page.getByRole('button', { name: 'CSV: plate/stack, every sample' }).click();
    expect(new URL((await asked).url()).searchParams.get('channel')).toBe('temperature[6144]');
  });
});

describe('on the real server', () => {
  const [ROWS, COLUMNS] = [4, 5];
  /** The element of a plane at a row and a column. */
  const element = (plane: number, row: number, column: number): number => 40 * plane + COLUMNS * row + column;
  let url = '';
  let publishStack: (extents: readonly number[]) => Promise<ReturnType<typeof publish>>;

  beforeAll(async () => {
    const [bus, folder] = [await privateBus(), await newFolder()];
    ({ url } = await startMonitor(bus, ['lab/**']));
    publishStack = async (extents) => {
      const planes = extents.reduce((so, extent) => so * extent, 1);
      const sample = Uint8Array.from({ length: planes * ROWS * COLUMNS }, (_, k) => element(Math.floor(k / (ROWS * COLUMNS)), Math.floor(k / COLUMNS) % ROWS, k % COLUMNS));
      const file = join(folder, `${extents.join('x')}.npy`);
      await writeFile(file, npy(sample, 10));
      await writeFile(file.replace(/npy$/, 'toml'), `rate = "10"\nchannels = [{ name = "x", unit = "V", shape = [${[...extents, ROWS, COLUMNS].join(', ')}] }]\n`);
      return publish(bus, ['lab/stack', '--file', file, '--loop']);
    };
  });
  afterAll(cleanUp);

  test('image, spectrum and waterfall have the values of the plane, and a new epoch with fewer planes says so', async () => {
    const publisher = await publishStack([2, 3]);
    await streamOf(url, 'lab/stack', ({ channels }) => channels[0]?.shape.join() === '2,3,4,5');
    const image = await pages.show(url, '?span=10s&plot=lab/stack:x;panel=image;plane=1,2');
    await says(image, new RegExp(`^row 2, column 2: ${element(5, 2, 2)}(\\.0+)? V$`));
    await control(image).getByRole('button', { name: 'plane before' }).click();
    await says(image, new RegExp(`^row 2, column 2: ${element(4, 2, 2)}(\\.0+)? V$`));
    await image.keyboard.press('>');
    await shows(image, '[1, 2]');

    const spectrum = await pages.show(url, '?span=10s&plot=lab/stack:x;panel=spectrum;log=;plane=1,0');
    await says(spectrum, new RegExp(`^peak ${element(3, 3, 4)}(\\.0+)? V at element 4`));

    const waterfall = await pages.show(url, '?span=5s&plot=lab/stack:x;panel=waterfall;log=;plane=1,1');
    await shows(waterfall, '[1, 1]');
    await until('the value of an element, the maximum of its rows', async () => {
      await waterfall.locator('.sample-canvas').hover();
      const [, column = '', shown = ''] = /element (\d): (\d+)(?:\.0+)? V/.exec(await value(waterfall)) ?? [];
      return shown !== '' && Number(shown) === element(4, 3, Number(column));
    });

    await publisher.crash();
    const fewer = await publishStack([2, 2]);
    await until('the other shape', async () => (await missing(image)).startsWith('There is no plane [1, 2]: this channel has 2 × 2 planes'));
    await says(image, new RegExp(`^row 2, column 2: ${element(3, 2, 2)}(\\.0+)? V$`));
    expect(plots(image)[0]).toBe('lab/stack:x;panel=image;plane=1,2');
    // [1, 1] is the fifth plane of 2 × 3 and the fourth one of 2 × 2: the same indices, without a word.
    await until('the same indices', async () => {
      await waterfall.locator('.sample-canvas').hover({ position: { x: 200, y: 60 } });
      await waterfall.locator('.sample-canvas').hover();
      return (await note(waterfall)).includes('plane [1, 1]') && (await waterfall.locator('.plane-count').innerText()) === 'of 2 × 2' && !(await waterfall.locator('.plane-missing').isVisible());
    });
    await fewer.crash();
  });
});

/** A file of so many equal samples of bytes: NEP 1, version 1.0. */
function npy(sample: Uint8Array, samples: number): Uint8Array {
  const words = `{'descr': '|u1', 'fortran_order': False, 'shape': (${samples}, ${sample.length}), }`;
  const head = `${words}${' '.repeat(63 - ((10 + words.length) % 64))}\n`;
  const start = Uint8Array.of(0x93, ...new TextEncoder().encode('NUMPY'), 1, 0, head.length % 256, Math.floor(head.length / 256));
  return Uint8Array.from([...start, ...new TextEncoder().encode(head), ...Array.from({ length: samples }, () => [...sample]).flat()]);
}
