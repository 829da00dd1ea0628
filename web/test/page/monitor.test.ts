/**
 * The page at a monitor server that is told what to read, derives streams and crashes, among publishers, a recorder and
 * another monitor server on one bus.
 */
import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectInOrder } from './accounts';
import { streamOf } from './api';
import { connection, drawn, query, until, windowOf } from './browser';
import { cleanUp, newFolder, publish, record, SINE, startMonitor, type Monitor } from './bus';
import { between, covered, inkedRows, MOST, moves, still } from './canvas';
import { privateBus, type Program } from './command';
import { choose, row } from './list';
import { Pages } from './pages';

const SECOND = 1_000_000_000n;
const CHIRP = ['test/chirp', '--wave', 'chirp', '--rate', '10k', '--channels', '2', '--frequency', '100'];
const ECG = ['--signal', 'ecg', '--loop'];
const PLOT = 'plot=test/sine:ch0';

describe('a monitor server', () => {
  const pages = new Pages();
  let bus: string;
  let archive: string;
  let sources: readonly Program[];
  let recorder: Program;
  let monitor: Monitor;
  /** Another one on the same bus. */
  let neighbour: Monitor;

  beforeAll(async () => {
    [bus, archive] = [await privateBus(), await newFolder()];
    recorder = record(bus, archive);
    neighbour = await startMonitor(bus, ['derived/*'], ['--reader', 'neighbour']);
    monitor = await startMonitor(bus, ['test/*'], ['--archive', archive]);
    sources = [SINE, CHIRP, ECG].map((words) => publish(bus, words));
  });
  afterAll(cleanUp);

  test('joins further streams by a pattern, and leaves it', async () => {
    const page = await pages.show(monitor.url, `?span=5s&${PLOT}`);
    expect(await row(page, 'ecg').count()).toBe(0);
    const form = await unfold(page, 'Join streams');
    await form.locator('input').fill('signal/e*');
    await form.locator('button[type=submit]').click();
    await until('the stream in the list', async () => (await row(page, 'ecg').count()) === 1);
    expect(await form.locator('.held code').allInnerTexts()).toEqual(['test/*', 'signal/e*']);
    await choose(page, 'ecg', 'Enter');
    await drawn(page);
    await moves(page, 1);
    await form.getByRole('button', { name: 'Leave signal/e*' }).click();
    await until('the pattern gone', async () => (await form.locator('.held code').count()) === 1);
    await form.locator('input').fill('signal//e');
    await form.locator('button[type=submit]').click();
    await until('the reason', async () => (await form.locator('.form-note').innerText()).includes('such as lab/*'));
    expect(pages.errors.splice(0)).toEqual([expect.stringContaining('400')]);
  });

  test.each(['500us', '1ms', '10ms'])('fills a window of %s that follows', async (span) => {
    const page = await pages.show(monitor.url, `?span=${span}&plot=test/chirp:ch0;y=fixed:-1.2:1.2`);
    await drawn(page);
    await until('samples up to the right edge', async () => covered(between(await inkedRows(page, { trace: 0 }), 0, 0.94)) > MOST);
  });

  test('derives a stream by an expression, which is plotted as any other', async () => {
    const page = await pages.show(monitor.url, `?span=2s&${PLOT};y=fixed:-1.2:1.2`);
    const form = await unfold(page, 'Derive a stream');
    const fill = (label: string, words: string): Promise<void> => form.getByPlaceholder(label).fill(words);
    await fill('Name', 'derived/sum');
    await fill('Expression', '(a + b) / 2 + 3');
    await fill('a = stream', 'a = test/sine:ch0, b = test/nothing');
    await fill('Unit', 'V');
    await form.locator('button[type=submit]').click();
    await until('the reason', async () => (await form.locator('.form-note').innerText()).includes('a = lab/probe:current'));
    await fill('a = stream', 'a = test/sine:ch0, b = test/sine:ch1');
    await form.locator('button[type=submit]').click();
    await until('the answer', async () => (await form.locator('.form-note').innerText()).includes('its own account'));
    await until('the stream in the list', async () => (await row(page, 'sum').count()) === 1);
    await choose(page, 'sum', 'Enter');
    await drawn(page);
    await moves(page, 1);
    // The two channels of the sine are half a turn apart: they cancel out.
    await until('the value', async () => /^3\.0*\s*V$/.test((await page.locator('.plot').nth(1).locator('.readout-value, .readout-unit').allInnerTexts()).join(' ')));
    const { derived } = await streamOf(monitor.url, 'derived/sum');
    expect(derived).toBe(true);
    await page.keyboard.press('Escape');
    await page.locator('.plot').nth(1).focus();
    await page.keyboard.press('a');
    await until('its account', async () => (await page.locator('#account-title').innerText()).endsWith('sum'));
    await until('a verdict', async () => (await page.locator('#law').getAttribute('data-balanced')) === 'true');
    await form.getByRole('button', { name: 'End derived/sum' }).click();
    await until('no stream derived', async () => (await form.locator('.held code').count()) === 0);
    await streamOf(neighbour.url, 'derived/sum', ({ health }) => health === 'ended');
  });

  test('crashes and comes back: the page says so, goes on as it was, and shows what was recorded before', async () => {
    const page = await pages.show(monitor.url, `?span=20s&${PLOT};w=8;y=fixed:-1.2:1.2&plot=test/chirp:ch0,test/chirp:ch1;h=2`);
    await drawn(page);
    const layout = query(page).getAll('plot');
    const { url } = monitor;
    await monitor.program.crash();
    await until('the page to say so', async () => (await page.locator('#sentence').innerText()).includes('No connection'));
    expect(await connection(page)).toBe('waiting');
    const crashed = BigInt(Date.now()) * 1_000_000n;
    await still(page);
    monitor = await startMonitor(bus, ['test/*'], ['--archive', archive], url);
    await until('a connection', async () => (await connection(page)) === 'open');
    await drawn(page);
    await moves(page, 0);
    await moves(page, 1);
    // What moves may still be what was recorded: its own reader of each stream joins when that next describes itself.
    for (const stream of ['test/chirp', 'test/sine']) await streamOf(monitor.url, stream, ({ health }) => health === 'ok' || health === 'losing');
    expect(query(page).getAll('plot')).toEqual(layout);
    await page.keyboard.press('Space');
    await until('an end in the address', () => windowOf(page).endNs !== null);
    const end = windowOf(page).endNs ?? 0n;
    // The server's live memory begins after the crash; what lies before comes from the archive, without a seam.
    const share = (time: bigint): number => Number(time - (end - 20n * SECOND)) / Number(20n * SECOND);
    await until('the time around the crash', async () => covered(between(await inkedRows(page, { trace: 0 }), share(crashed - 2n * SECOND), 0.99)) > MOST);
  });

  test('ends, as the recorder does, with accounts that close, balanced and explained', async () => {
    await Promise.all(sources.map((source) => source.end()));
    for (const [reader, streams] of [[recorder, ['derived/sum', 'signal/ecg', 'test/chirp', 'test/sine']], [monitor.program, ['test/chirp', 'test/sine']]] as const) {
      const { code, objects } = await reader.end();
      expect(code, `${reader}`).toBe(0);
      expectInOrder(objects, streams);
    }
  });
});

/** Unfolds a form below the list. */
async function unfold(page: Page, words: string): Promise<Locator> {
  const details = page.locator('#sources details', { hasText: words });
  await details.locator('summary').click();
  return details;
}
