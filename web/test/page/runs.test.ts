/**
 * Runs of the experiment on the page of a real monitor server: a run is started and stopped by the command, is found, followed
 * and linked to. A long list is that of the fake server.
 */
import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { nanoseconds } from '../../src/wire/json';
import { drawn, paused, query, until, windowOf } from './browser';
import { cleanUp, publish, SINE, startMonitor, type Monitor } from './bus';
import { dataBox } from './canvas';
import { privateBus, Program } from './command';
import { Pages } from './pages';

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
  expect(await page.locator('#toast').textContent()).toBe('No run shot-99 is known to this monitor: the list of runs has those that are');
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
