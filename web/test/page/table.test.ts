/**
 * The table of newest values on the real server: what its cells say, how few of them are written, and that the account stays
 * as it is.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fields, number } from '../../src/wire/json';
import type { Stream } from '../../src/wire/messages';
import { ask, streamOf } from './api';
import { query, until } from './browser';
import { cleanUp, newFolder, publish, record, startMonitor } from './bus';
import { privateBus } from './command';
import { Pages } from './pages';

const pages = new Pages();
let url = '';
let traces: readonly string[] = [];

/** A stream of one channel that goes on, and one of 99 whose publisher is gone. */
const CHANNELS = 99;
const wave = (name: string, channels: number): readonly string[] => [name, '--wave', 'sine', '--rate', '100', '--frequency', '0.37', '--channels', String(channels), '--unit', 'V'];
const hasSamples = ({ nextIndex, firstIndex }: Stream): boolean => nextIndex > firstIndex;

beforeAll(async () => {
  const bus = await privateBus();
  ({ url } = await startMonitor(bus, ['lab/**']));
  publish(bus, wave('lab/live', 1));
  const silent = publish(bus, wave('lab/silent', CHANNELS));
  const streams = [await streamOf(url, 'lab/live', hasSamples), await streamOf(url, 'lab/silent', hasSamples)];
  traces = streams.flatMap(({ name, channels }) => channels.map((channel) => `${name}:${channel.name}`));
  // As at a power cut.
  await silent.crash();
});
afterAll(cleanUp);

const table = async (): Promise<Page> => {
  const page = await pages.show(url, `?span=10s&plot=${traces.join(',')};panel=table`);
  await until('every row', async () => (await page.locator('.value-table tbody .table-value:not(:empty)').count()) === traces.length);
  return page;
};
const cell = (page: Page, place: number, column: string): Promise<string> => page.locator('.value-table tbody tr').nth(place).locator(`.table-${column}`).innerText();
const silentOnes = (page: Page): Promise<number> => page.locator('.value-table tbody tr[data-state="absent"]').count();

/** A line of the copied table. */
interface Line {
  readonly channel: string;
  readonly value: string;
  readonly unit: string;
  readonly time: string;
}

/** What copying with the focus in a row puts into the clipboard. */
async function copied(page: Page): Promise<readonly Line[]> {
  const text = await page.evaluate(() => {
    const data = new DataTransfer();
    document.querySelector('.value-table tbody tr')?.dispatchEvent(new ClipboardEvent('copy', { clipboardData: data, bubbles: true, cancelable: true }));
    return data.getData('text/plain');
  });
  return text.split('\n').slice(1).map((line) => {
    const [channel = '', value = '', unit = '', , time = ''] = line.split('\t');
    return { channel, value, unit, time };
  });
}

const timeOf = ({ time }: Line): bigint => BigInt(Date.parse(time)) * 1_000_000n + BigInt(time.slice(23, 29));

/** The streams are of f4: the copied text has as many digits as tell one f4 from the next. */
const figureOf = ({ value }: Line): number => Math.fround(Number(value));

/** The newest sample of a channel at or before a time, as the server exports it; null if two seconds before it have none. */
async function exported({ channel: name }: Pick<Line, 'channel'>, at: bigint, from = url): Promise<number | null> {
  const [stream = '', channel = ''] = name.split(':');
  const search = new URLSearchParams({ stream, channel, from: `${at - 2_000_000_000n}`, to: `${at + 1n}`, format: 'csv' });
  const rows = (await (await fetch(`${from}/api/export?${search}`)).text()).split('\n').filter((row) => /^\d/.test(row));
  const last = rows.at(-1)?.split(',')[2];
  return last === undefined ? null : Number(last);
}

/** Waits until the first row has the newest sample at or before a time. */
const shows = (page: Page, at: bigint): Promise<void> => until(`the sample at ${at}`, async () => {
  const [line] = await copied(page);
  if (line === undefined || line.time === '' || timeOf(line) > at) return false;
  return figureOf(line) === await exported(line, at);
});

test('a hundred channels have their newest samples whole, and a silent one keeps its value while its age goes on', async () => {
  const page = await table();
  await until('99 silent channels', async () => (await silentOnes(page)) === CHANNELS);
  expect(await cell(page, 1, 'state')).toMatch(/^(silent|ended)$/);
  const lines = await copied(page);
  expect(lines.map(({ channel }) => channel)).toEqual(traces);
  for (const line of [lines[0], lines[1], lines[60]]) {
    if (line === undefined) throw new Error('a line for each row');
    // Half a period later: the time of a sample may be rounded otherwise.
    expect([figureOf(line), line.unit]).toEqual([await exported(line, timeOf(line) + 5_000_000n), 'V']);
  }
  const before = await cell(page, 1, 'age');
  await until('a greater age', async () => (await cell(page, 1, 'age')) !== before);
  expect((await copied(page))[1]).toEqual(lines[1]);
});

test('a frame writes the cells that it changes, and the account knows nothing of a table', async () => {
  const page = await table();
  await until('99 silent channels', async () => (await silentOnes(page)) === CHANNELS);
  await page.evaluate(() => {
    const counts: Record<string, number> = {};
    Object.assign(window, { counts });
    const body = document.querySelector('.value-table tbody');
    if (body === null) throw new Error('a table has a body');
    const rows = [...body.children];
    new MutationObserver((changes) => changes.forEach(({ target }) => {
      const element = target instanceof Element ? target : target.parentElement;
      const key = `${rows.findIndex((row) => row.contains(target)) === 0 ? 'live' : 'silent'} ${element?.className}`;
      counts[key] = (counts[key] ?? 0) + 1;
    })).observe(body, { childList: true, characterData: true, subtree: true });
  });
  const counts = (): Promise<Record<string, number>> => page.evaluate(() => (window as unknown as { counts: Record<string, number> }).counts);
  await until('thirty new values', async () => ((await counts())['live table-value'] ?? 0) >= 30);
  const seen = await counts();
  // Ages are in seconds, and a hole may still be settled; nothing else is written of what has not changed.
  expect(Object.keys(seen).filter((key) => key.startsWith('silent') && !/age|lost$/.test(key))).toEqual([]);
  expect(seen['live table-channel'] ?? 0).toBe(0);
  expect(seen['live table-unit'] ?? 0).toBe(0);
  const account = fields(await ask(url, '/api/account', { stream: 'lab/live' }));
  expect(number(fields(account['browsers']), 'lost_elements', -1)).toBe(0);
});

test('a held table has the samples at the end of its window, and at cursor A, and says so', async () => {
  const page = await table();
  const note = (): Promise<string> => page.locator('.plot-note').innerText();
  await until('newest values', async () => (await note()) === 'newest values');
  await page.keyboard.press('Space');
  const end = (): string => query(page).get('end') ?? '';
  await until('the address to hold', () => end() !== '');
  expect(await note()).toMatch(/^held: values at the end of the window, \d\d:\d\d:\d\d\.\d{3}$/);
  await shows(page, BigInt(end()));
  const cursor = BigInt(end()) - 500_000_000n;
  await page.goto(`${url}/${new URL(page.url()).search}&cursors=${cursor},${end()}`);
  await shows(page, cursor);
  expect(await note()).toMatch(/^held: values at cursor A, /);
});

test('a held table has what only the archive has, and says where nothing was recorded', async () => {
  const [bus, archive] = [await privateBus(), await newFolder()];
  const recorder = record(bus, archive);
  const first = await startMonitor(bus, ['lab/**'], ['--archive', archive]);
  const publisher = publish(bus, wave('lab/gone', 1));
  const { nextIndex, channels: [channel] } = await streamOf(first.url, 'lab/gone', hasSamples);
  const [name, at] = [`lab/gone:${channel?.name}`, BigInt(Date.now()) * 1_000_000n];
  await streamOf(first.url, 'lab/gone', (stream) => stream.nextIndex > nextIndex + 200);
  const value = await exported({ channel: name }, at, first.url);
  for (const program of [publisher, recorder, first.program]) await program.end();
  const second = await startMonitor(bus, ['lab/**'], ['--archive', archive]);
  // A page without any stream shows no table.
  publish(bus, wave('lab/other', 1));
  await streamOf(second.url, 'lab/other', hasSamples);
  const page = await pages.show(second.url, `?span=10s&end=${at}&plot=${name};panel=table`);
  await until('the sample of the archive', async () => (await copied(page))[0]?.time !== '');
  const [line] = await copied(page);
  if (line === undefined) throw new Error('a line for each row');
  expect([figureOf(line), timeOf(line) <= at, await cell(page, 0, 'state')]).toEqual([value, true, 'ended']);
  await page.goto(`${second.url}/?span=10s&end=${at - 86_400_000_000_000n}&plot=${name};panel=table`);
  await until('the reason', async () => (await cell(page, 0, 'value')) === 'not recorded');
  expect(await cell(page, 0, 'state')).toBe('not known');
});

test('rows are sorted by a head, walked by keys and taken out; a trend becomes a table and back', async () => {
  const page = await pages.show(url, `?span=10s&plot=${traces.slice(0, 4).join(',')}`);
  const choice = page.locator('.panel-choice');
  await choice.selectOption('table');
  await until('the address', () => query(page).get('plot')?.endsWith(';panel=table') === true);
  await until('four rows', async () => (await page.locator('.value-table tbody .table-value:not(:empty)').count()) === 4);
  const names = (): Promise<readonly string[]> => page.locator('.value-table tbody th').evaluateAll((all) => all.map((each) => each.getAttribute('title') ?? ''));
  const head = page.locator('.value-table thead .table-channel');
  for (const [sorted, order] of [['ascending', traces.slice(0, 4)], ['descending', traces.slice(0, 4).reverse()], [null, traces.slice(0, 4)]] as const) {
    await head.getByRole('button').click();
    expect(await head.getAttribute('aria-sort')).toBe(sorted);
    expect(await names()).toEqual(order);
  }
  await page.locator('.value-table tbody tr').first().focus();
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowUp');
  expect(await page.evaluate(() => document.activeElement?.querySelector('th')?.getAttribute('title'))).toBe(traces[2]);
  await page.keyboard.press('Delete');
  expect(await names()).toEqual([traces[0], traces[1], traces[3]]);
  await choice.selectOption('trend');
  await until('a trend of three', async () => (await page.locator('.readout-value').count()) === 3);
  await until('the address without a panel', () => query(page).get('plot')?.includes('panel') === false);
});
