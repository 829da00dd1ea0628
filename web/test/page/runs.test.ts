/**
 * Runs of the experiment on the page of a real monitor server: a run is started and stopped by the command, is found, followed
 * and linked to. A long list is that of the fake server.
 */
import { readFile } from 'node:fs/promises';
import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { nanoseconds } from '../../src/wire/json';
import { drawn, paused, query, until, windowOf } from './browser';
import { cleanUp, newFolder, publish, record, SINE, startMonitor, type Monitor } from './bus';
import { dataBox } from './canvas';
import { privateBus, Program } from './command';
import { Pages } from './pages';
import { withPixels } from './png';

const PLOT = 'plot=test/sine:ch0;y=fixed:-1.2:1.2';
const BY = { host: 'daq-3', principal: 'user:anna' };
const pages = new Pages();
let bus: string;
let monitor: Monitor;

beforeAll(async () => {
  bus = await privateBus();
  monitor = await startMonitor(bus, ['test/*']);
  publish(bus, SINE);
});
afterAll(cleanUp);

/** Says the start or the stop of a run, and returns its time. */
async function say(what: 'start' | 'stop', ...words: readonly string[]): Promise<bigint> {
  const program = new Program(['run', what, ...words, '--json', '--bus', bus]);
  return nanoseconds(await program.object(what, (object) => 'event' in object), 'time_ns');
}

const row = (page: Page, id: string): Locator => page.locator('.run-row', { has: page.locator(`.run-id:text-is("${id}")`) });
const chip = async (page: Page): Promise<string> => (await page.locator('#run-chip').innerText()).replaceAll(/\s+/g, ' ');
const says = (page: Page, words: RegExp): Promise<void> => until(`the chip to say ${words}`, async () => (await page.locator('#run-chip').isVisible()) && words.test(await chip(page)));
const marks = (page: Page): Promise<readonly string[]> => page.locator('.run-mark[data-chosen]').evaluateAll((all) => all.map((mark) => mark.getAttribute('title') ?? ''));

/** Opens the list, which asks the server then. */
async function reopen(page: Page): Promise<void> {
  if (await page.locator('#runs').isVisible()) await page.keyboard.press('Escape');
  await page.keyboard.press('r');
}

test('a run is found while it goes on, followed to its end, and its address shows it again', async () => {
  const page = await pages.show(monitor.url, `?span=2s&${PLOT}`);
  await page.keyboard.press('r');
  await until('an empty list', async () => (await page.locator('.run-note').innerText()).includes('No run is known yet'));
  const started = await say('start', 'shot-1', '--label', 'program=ohmic');
  await until('the run in the list', async () => {
    await reopen(page);
    return (await row(page, 'shot-1').count()) === 1;
  });
  expect(await row(page, 'shot-1').innerText()).toMatch(/running\n.*program=ohmic/);
  await row(page, 'shot-1').click();
  await says(page, /^shot-1 running/);
  expect(await paused(page)).toBe(false);
  await until('its start in the plot', async () => (await marks(page)).length === 1);
  expect((await marks(page))[0]).toMatch(/^shot-1 starts /);
  await until('the run in the address, without a window', () => query(page).get('during') === 'shot-1' && !query(page).has('span'));

  const stopped = await say('stop', 'shot-1', '--started', `${started}`, '--label', 'program=ohmic');
  await until('its end', async () => {
    await reopen(page);
    return /^shot-1 (?!running)/.test(await chip(page));
  });
  expect(await paused(page)).toBe(true);
  await until('start and end in the plot', async () => (await marks(page)).map((mark) => mark.split(' ')[1]).join() === 'starts,ends');
  expect(query(page).has('end')).toBe(false);

  // Time from its start, beside the time of day.
  await page.keyboard.press('Escape');
  await page.keyboard.press('0');
  const { x, y, width, height } = await dataBox(page);
  await page.mouse.move(x + width / 2, y + height / 2);
  await until('both times', async () => /^t = [\d.]+ s · \d\d:\d\d:\d\d/.test(await page.locator('.cursor-time').first().innerText()));
  await until('that in the address', () => query(page).get('t0') === 'run');

  const link = new URL(page.url()).search;
  const other = await pages.show(monitor.url, link);
  await says(other, /^shot-1 [\d.]+ m?s/);
  await drawn(other);
  expect(await paused(other)).toBe(true);
  // A window of one's own is written beside the run: it is all of the run, and a little more.
  await other.keyboard.press('+');
  await other.keyboard.press('-');
  await until('a window in the address', () => query(other).has('end'));
  const { spanNs, endNs } = windowOf(other);
  expect((endNs ?? 0n) - spanNs < started && (endNs ?? 0n) > stopped).toBe(true);
  expect(query(other).get('during')).toBe('shot-1');
});

test('an id that is not known is said, as is an id of several runs and a run that overlaps', async () => {
  await say('start', 'shot-2');
  await say('start', 'shot-2');
  await say('start', 'shot-3');
  const page = await pages.show(monitor.url, `?during=shot-99&${PLOT}`);
  await says(page, /^shot-99 is not known$/);
  expect(await page.locator('#toast').textContent()).toBe('No run shot-99 is known to this monitor: choose another from the list of runs');
  const several = await pages.show(monitor.url, `?during=shot-2&${PLOT}`);
  await says(several, /^shot-2 running/);
  await until('which one in the address', () => /^shot-2@\d+$/.test(query(several).get('during') ?? ''));
  await several.keyboard.press('r');
  await until('what is peculiar', async () => (await several.locator('.run-remarks').innerText()).includes('No stop is known: it is still running, or its stop was forgotten. Overlaps shot-3.'));
  await several.keyboard.press('Escape');
  await several.keyboard.press('.');
  await says(several, /^shot-3 running/);
  await several.keyboard.press(',');
  await several.keyboard.press(',');
  await says(several, /^shot-2 (?!running)/);
});

test('a run is marked in the plots without anything opened, as soon as it starts, and when it stops', async () => {
  const page = await pages.show(monitor.url, `?span=1h&${PLOT}`);
  await drawn(page);
  const all = (): Promise<readonly string[]> => page.locator('.run-mark').evaluateAll((lines) => lines.map((mark) => (mark.getAttribute('title') ?? '').split(' ').slice(0, 2).join(' ')));
  await say('start', 'shot-7');
  await until('its start', async () => (await all()).includes('shot-7 starts'));
  await say('stop', 'shot-7');
  await until('its end', async () => (await all()).includes('shot-7 ends'));
  expect(await page.locator('#runs').isVisible()).toBe(false);
  expect(await page.locator('#run-chip').isVisible()).toBe(false);
});

test('a run that is presented is on the pages that follow: its window, its marks and time from its start', async () => {
  await say('start', 'shot-8');
  await say('stop', 'shot-8');
  const anna = await pages.show(monitor.url, `?span=10s&${PLOT}`);
  await drawn(anna);
  await anna.keyboard.press('v');
  await anna.getByLabel('Save what is shown as').fill('Shots');
  await anna.keyboard.press('Enter');
  await anna.getByRole('button', { name: 'Follow Shots' }).click();
  const ben = await pages.show(monitor.url, '?view=Shots');
  await drawn(ben);
  await until('a button to present', () => anna.getByRole('button', { name: 'Present', exact: true }).isVisible());
  await anna.getByRole('button', { name: 'Present', exact: true }).click();
  await until('the presenter', async () => (await ben.locator('#shared-chip').innerText()).includes('a visitor presents'));
  await anna.keyboard.press('Escape');
  await anna.keyboard.press('r');
  await until('the run in the list', async () => (await row(anna, 'shot-8').count()) === 1);
  await row(anna, 'shot-8').click();
  await anna.keyboard.press('Escape');
  await anna.keyboard.press('0');
  await says(ben, /^shot-8 \d/);
  const placed = (page: Page): Promise<string> => page.locator('.run-mark[data-chosen]').evaluateAll((lines) => lines.map((mark) => `${mark.getAttribute('title')} ${(mark as HTMLElement).style.transform}`).join());
  await until('the same marks at the same places', async () => (await placed(ben)).includes('shot-8 ends') && (await placed(ben)) === (await placed(anna)));
  expect(await paused(ben)).toBe(true);
  const { x, y, width, height } = await dataBox(ben);
  await ben.mouse.move(x + width / 2, y + height / 2);
  await until('time from the start of the run', async () => /^t = [\d.]+ s · /.test(await ben.locator('.cursor-time').first().innerText()));
  expect(await ben.locator('#shared-chip').innerText()).toContain('a visitor presents');

  // A page that forks it has the run in its own address, and its window by the run.
  const fork = await pages.show(monitor.url, '?fork=Shots');
  await says(fork, /^shot-8 /);
  await until('the run in the address', () => query(fork).get('during') === 'shot-8' && query(fork).get('t0') === 'run' && !query(fork).has('end'));

  // The presenter leaves the run: so do all.
  await anna.keyboard.press('r');
  await anna.getByRole('button', { name: 'Leave', exact: true }).click();
  await until('no run', async () => !(await ben.locator('#run-chip').isVisible()) && !(await paused(ben)));
});

test('a view of a run that is not known says so, what to do, and shows the window that it has', async () => {
  const fields = {
    order: ['p'], 'plot/p': { panel: 'trend', traces: [{ stream: 'test/sine', channel: 'ch0' }] }, window: { span_ns: 5_000_000_000, end_ns: null },
    run: { id: 'shot-99', relative: true, whole: true },
  };
  const put = await fetch(`${monitor.url}/api/views/Gone`, { method: 'PUT', body: JSON.stringify({ fields }) });
  expect(put.status).toBe(200);
  const page = await pages.show(monitor.url, '?view=Gone');
  await says(page, /^shot-99 is not known$/);
  expect(await page.locator('#toast').textContent()).toBe('No run shot-99 is known to this monitor: choose another from the list of runs');
  await drawn(page);
  expect(await page.locator('#span').inputValue()).toBe('5000000000');
  expect(await paused(page)).toBe(false);
  await page.locator('#run-chip').click();
  await until('what to do', async () => (await page.locator('.run-remarks').innerText()) === 'No run shot-99 is known to this monitor: choose another, or leave it. The window stays as it is.');
  expect(await page.locator('.run-buttons button:visible').allInnerTexts()).toEqual(['Leave']);
  await page.getByRole('button', { name: 'Leave', exact: true }).click();
  await until('a view without a run', async () => ((await (await fetch(`${monitor.url}/api/views/Gone`)).json()) as { fields: { run: unknown } }).fields.run === null);
  expect(await page.locator('#run-chip').isVisible()).toBe(false);
  const refused = await fetch(`${monitor.url}/api/views/Gone`, { method: 'PATCH', body: JSON.stringify({ fields: { run: { id: 'two words' } } }) });
  expect([refused.status, ((await refused.json()) as { error: string }).error]).toEqual([400, 'field `run`: `id` is one word of letters, digits, `_`, `-` and `.`, 64 bytes at most']);
});

test('a monitor knows the runs of its archive, also those that are recorded meanwhile', async () => {
  const [recorded, archive] = [await privateBus(), await newFolder()];
  record(recorded, archive);
  const other = await startMonitor(await privateBus(), ['test/*'], ['--archive', archive]);
  const known = async (): Promise<string> => ((await (await fetch(`${other.url}/api/runs`)).json()) as { id: string; state: string }[]).map(({ id, state }) => `${id} ${state}`).join();
  const command = async (what: string, id: string): Promise<unknown> => new Program(['run', what, id, '--json', '--bus', recorded]).object(what, (object) => 'event' in object);
  await command('start', 'old-1');
  await until('the run that goes on', async () => (await known()) === 'old-1 open');
  await command('stop', 'old-1');
  await until('its end', async () => (await known()) === 'old-1 stopped');
  await command('start', 'old-2');
  await until('the next one', async () => (await known()) === 'old-1 stopped,old-2 open');
});

test('a thousand runs are searched and chosen by keys, with few of them in the document', async () => {
  const fake = await startFakeServer();
  const now = BigInt(Date.now()) * 1_000_000n;
  for (let i = 0n; i < 1_000n; i += 1n) {
    const start_ns = now - (1_000n - i) * 20_000_000_000n;
    fake.runs.push({ id: `shot-${i}`, state: 'stopped', start_ns, end_ns: start_ns + 9_000_000_000n, labels: { gas: i % 2n === 0n ? 'H' : 'D2' }, started_by: BY, stopped_by: BY, clock_behind_ns: 0 });
  }
  const page = await pages.show(fake.url, '?span=10s&plot=test/hole:sine');
  await page.keyboard.press('r');
  const rows = page.locator('.run-row');
  await until('the newest first', async () => (await rows.count()) > 0 && (await rows.first().locator('.run-id').innerText()) === 'shot-999');
  expect(await rows.count()).toBeLessThan(60);
  await page.locator('.run-scroller').evaluate((scroller) => { scroller.scrollTop = scroller.scrollHeight; });
  await until('the oldest', async () => (await row(page, 'shot-0').count()) === 1);
  expect(await rows.count()).toBeLessThan(60);
  await page.keyboard.type('d2 shot-11');
  // 11, and of 110 to 119 those with an odd number.
  await until('what matches', async () => (await page.locator('.run-count').innerText()) === '6 of 1000');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await says(page, /^shot-117 9 s$/);
  expect(await page.locator('.run-row[aria-selected=true] .run-id').innerText()).toBe('shot-117');
  await page.getByRole('button', { name: 'Leave' }).click();
  await until('no run', async () => !(await page.locator('#run-chip').isVisible()) && !(await paused(page)));
  await until('none in the address', () => !query(page).has('during'));
  await fake.close();
});

describe('with ten thousand runs at the server', () => {
  const SECOND = 1_000_000_000n;
  /** A run of nine seconds every twenty seconds, the last one a minute ago. */
  const COUNT = 10_000n;
  let fake: Awaited<ReturnType<typeof startFakeServer>>;
  let last: bigint;

  beforeAll(async () => {
    fake = await startFakeServer();
    last = BigInt(Date.now()) * 1_000_000n - 60n * SECOND;
    for (let i = 0n; i < COUNT; i += 1n) fake.runs.push(stopped(`shot-${i}`, last - (COUNT - 1n - i) * 20n * SECOND));
  });
  afterAll(() => fake.close());

  const stopped = (id: string, start_ns: bigint): object => ({ id, state: 'stopped', start_ns, end_ns: start_ns + 9n * SECOND, labels: {}, started_by: BY, stopped_by: BY, clock_behind_ns: 0 });
  const flags = (page: Page): Promise<string> => page.locator('.run-flag').evaluateAll((all) => all.map((each) => each.textContent).join());
  /** A window from five seconds before a run to five seconds after it. */
  const around = (start: bigint): string => `?span=19s&end=${start + 14n * SECOND}&plot=test/hole:sine`;

  test('a page asks for those around its window alone, once, and again when there are others', async () => {
    // At most one request each time that the page is told of others, which a new connection does, too; `each` runs are in its answer.
    let before = { ...fake.asked };
    const costs = (each: number): void => {
      const [requests, runs, told] = [fake.asked.requests - before.requests, fake.asked.runs - before.runs, fake.asked.told - before.told];
      expect(requests).toBeLessThanOrEqual(told);
      expect(runs).toBe(each * requests);
      before = { ...fake.asked };
    };
    const page = await pages.show(fake.url, around(last - 200n * SECOND));
    await until('the marks', async () => (await flags(page)) === '▸ shot-9989,shot-9989 ◂');
    // The window, and as much on either side.
    costs(3);
    // Steps within the margin cost nothing: the marks of the run before are there.
    for (let i = 0; i < 4; i += 1) await page.keyboard.press('ArrowLeft');
    await until('the run before', async () => (await flags(page)).includes('shot-9988 ◂'));
    for (let i = 0; i < 4; i += 1) await page.keyboard.press('ArrowRight');
    await until('the run again', async () => (await flags(page)) === '▸ shot-9989,shot-9989 ◂');
    costs(3);
    fake.runs.push(stopped('extra', last - 195n * SECOND));
    fake.tellRuns();
    await until('the other run', async () => (await page.locator('.run-mark[title^="extra"]').count()) === 2);
    costs(4);
    // A window far away.
    await page.goto(`${fake.url}/${around(last - 100_000n * SECOND)}`);
    await until('the marks there', async () => (await flags(page)) === '▸ shot-4999,shot-4999 ◂');
    costs(3);
    fake.runs.splice(fake.runs.findIndex((run: { id: string }) => run.id === 'extra'), 1);
  });

  test('a run in an address is asked for by its id', async () => {
    const before = { ...fake.asked };
    const page = await pages.show(fake.url, '?during=shot-17&plot=test/hole:sine');
    await says(page, /^shot-17 9 s$/);
    await until('its marks', async () => (await flags(page)) === '▸ shot-17,shot-17 ◂');
    expect(fake.asked.runs - before.runs).toBeLessThan(20);
  });

  test('marks are switched off and on by a key, and stay so', async () => {
    const page = await pages.show(fake.url, around(last - 200n * SECOND));
    await until('the marks', async () => (await flags(page)) !== '');
    await page.keyboard.press('R');
    await until('no marks', async () => (await page.locator('.run-mark').count()) === 0);
    const before = { ...fake.asked };
    await page.reload();
    await drawn(page);
    fake.tellRuns();
    await page.keyboard.press('r');
    const button = page.getByRole('button', { name: 'Marks' });
    await until('the list', async () => (await page.locator('.run-count').innerText()) === '10000');
    expect([await button.getAttribute('aria-pressed'), await page.locator('.run-mark').count()]).toEqual(['false', 0]);
    // The list, and again whenever it was told of others; nothing for marks.
    expect(fake.asked.requests - before.requests).toBeLessThanOrEqual(1 + fake.asked.told - before.told);
    await button.click();
    await until('the marks again', async () => (await flags(page)) === '▸ shot-9989,shot-9989 ◂');
  });

  test('a picture has the marks of the plot, and says from which run time is counted', async () => {
    const page = await pages.show(fake.url, `${around(last - 200n * SECOND)}&during=shot-9989&t0=run`);
    await drawn(page);
    await until('the marks', async () => (await flags(page)) === '▸ shot-9989,shot-9989 ◂');
    const box = await dataBox(page);
    const body = await page.locator('.plot-body').first().boundingBox();
    const picture = async (): Promise<Buffer> => {
      await page.keyboard.press('e');
      const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'PNG of this plot' }).click()]);
      await page.keyboard.press('Escape');
      return readFile(await download.path());
    };
    const marked = await picture();
    await page.keyboard.press('R');
    await until('no marks', async () => (await page.locator('.run-mark').count()) === 0);
    const bare = await picture();
    const { columns, width } = await differences(page, marked, bare);
    // The lines of start and end are as high as the data, at their places; the labels are low and beside them.
    const places = [5, 14].map((second) => Math.round(16 + box.x - (body?.x ?? 0) + (box.width * second) / 19));
    const high = columns.flatMap((rows, x) => (rows > 0.9 * box.height ? [x] : []));
    for (const place of places) expect(high.some((x) => Math.abs(x - place) <= 1), `${place} in ${high.join()}`).toBe(true);
    expect(high.length).toBeLessThanOrEqual(4);
    expect(columns.filter((rows) => rows > 3 && rows < 20).length).toBeGreaterThan(40);
    expect(width).toBeGreaterThan(box.width);
    // Without a run there is one line less below the plot.
    await page.keyboard.press('0');
    const { heights } = await differences(page, bare, await picture());
    expect((heights[0] ?? 0) - (heights[1] ?? 0)).toBe(20);
  });
});

describe('a view of a run that goes on', () => {
  test('grows with it on a page that may edit, and is left by none that may not', async () => {
    const fake = await startFakeServer();
    const now = BigInt(Date.now()) * 1_000_000n;
    fake.runs.push({ id: 'long', state: 'open', start_ns: now - 595_000_000_000n, end_ns: null, labels: {}, started_by: BY, stopped_by: null, clock_behind_ns: 0 });
    fake.views.put('rod', {
      order: ['p'], 'plot/p': { panel: 'trend', traces: [{ stream: 'test/hole', channel: 'sine' }] }, window: { span_ns: '#10000000000#', end_ns: null },
      run: { id: 'long', at_ns: null, relative: true, whole: true },
    }, 'anna');
    const cookie = (name: string, value: string) => ({ name, value, domain: '127.0.0.1', path: '/', expires: -1, httpOnly: false, secure: false, sameSite: 'Lax' as const });
    const reader = await pages.show(fake.url, '?view=rod', { storageState: { cookies: [cookie('fake-role', 'reader')], origins: [] } });
    await says(reader, /^long running/);
    await drawn(reader);
    expect(await reader.locator('#span').inputValue()).toBe('10000000000');
    const writer = await pages.show(fake.url, '?view=rod');
    const spanOf = (page: Page): Promise<string> => page.evaluate(() => document.querySelector<HTMLSelectElement>('#span')?.value ?? '');
    // It outgrows ten minutes while it is looked at.
    await until('all of the run', async () => Number(await spanOf(writer)) >= 1_200e9 && (await spanOf(reader)) === (await spanOf(writer)));
    expect(await reader.locator('#shared-chip').innerText()).not.toContain('You left');
    await fake.close();
  });
});

/** By how many pixels each column of two pictures differs, and their heights. */
function differences(page: Page, one: Buffer, other: Buffer): Promise<{ columns: readonly number[]; width: number; heights: readonly number[] }> {
  return withPixels(page, [one, other], (blank, handle) => blank.evaluate((images) => {
    const [a, b] = images as [ImageData, ImageData];
    const columns = Array.from({ length: a.width }, () => 0);
    for (let i = 0; i < Math.min(a.data.length, b.data.length); i += 4) {
      if ([0, 1, 2].some((part) => a.data[i + part] !== b.data[i + part])) columns[(i / 4) % a.width] = (columns[(i / 4) % a.width] ?? 0) + 1;
    }
    return { columns, width: a.width, heights: images.map(({ height }) => height) };
  }, handle));
}
