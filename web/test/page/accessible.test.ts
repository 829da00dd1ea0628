/**
 * The page for people who hear it, or see it only in part: names, roles, contrasts and what keys reach, as axe-core judges
 * every state of the page, dark and light, over the fake server. All of its rules are on; the second theme of a state is judged
 * by those of colours.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { AxeResults, RunOptions } from 'axe-core';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { connection, listed, until } from './browser';
import { Pages } from './pages';

/** `axe-core` in the page. */
declare const axe: { run(context: Document, options: RunOptions): Promise<AxeResults> };

const AXE = readFileSync(fileURLToPath(new URL('../../node_modules/axe-core/axe.min.js', import.meta.url)), 'utf8');
const TRENDS = '?span=10s&plot=test/hole:sine&plot=w7x/ecrh/power:gyrotron 1,w7x/ecrh/power:gyrotron 2';
const FIELDS = '?span=10s&plot=plate/image:temperature;panel=image&plot=lab/spectrum:x;panel=spectrum&plot=lab/spectrum:x;panel=waterfall';
const RELAYED = '?span=10s&plot=test/injected:sine';
const FOLLOWED = { 'plot/p1': { panel: 'trend', traces: [{ stream: 'test/hole', channel: 'sine' }] } };
const PARAMETER = { dtype: 'f8', shape: [], unit: 'V', min: 0, max: 10, greatest_step: null, administered: false, group: 'heating', known: true, revision: 0, may: true, holder: 'user:bob', yours: false };

const pages = new Pages();
type Fake = Awaited<ReturnType<typeof startFakeServer>>;
let bus: Fake;
let closed: Fake;

beforeAll(async () => {
  [bus, closed] = await Promise.all([startFakeServer({ fields: true, alarms: true, hops: 2, attack: true, fullDisk: true, insecure: true }), startFakeServer({ users: true })]);
  bus.runs.push({ id: 'shot-1', state: 'open', start_ns: BigInt(Date.now()) * 1_000_000n, end_ns: null, labels: { gas: 'D2' }, started_by: { host: 'daq-3', principal: 'user:anna' }, stopped_by: null, clock_behind_ns: 0 });
  bus.views.put('rod', { window: { span_ns: '#10000000000#', end_ns: null }, order: ['p1'], notes: 'Look at the step', title: 'Heated rod', ...FOLLOWED }, 'anna');
});
afterAll(() => Promise.all([bus.close(), closed.close()]));

/** Says what axe-core finds in the page as it stands: each with the elements and what is wrong with them. */
async function findings(page: Page, options: RunOptions): Promise<readonly string[]> {
  const { violations } = await page.evaluate((more) => axe.run(document, { resultTypes: ['violations'], ...more }), options);
  return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, help, nodes }) => `${id}: ${help}\n${nodes.map(({ target, failureSummary }) => `  ${target.join(' ')}: ${failureSummary ?? ''}`).join('\n')}`);
}

/** Opens the page in the colours that users see, which other tests change. */
async function show(query: string, options: BrowserContextOptions = {}, url = bus.url): Promise<Page> {
  const page = await pages.open(url, query, { reducedMotion: 'reduce', ...options });
  await page.evaluate(AXE);
  await page.evaluate(() => { document.adoptedStyleSheets = []; });
  return page;
}

/** The rules that judge colours: of a state's other theme, everything else is the same. */
const OF_COLOURS: RunOptions = { runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] } };

/** Expects nothing serious, dark and light. */
async function expectAccessible(page: Page): Promise<void> {
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await until(`the ${colorScheme} theme`, () => page.evaluate((wanted) => document.documentElement.dataset['theme'] === wanted, colorScheme));
    expect(await findings(page, colorScheme === 'dark' ? {} : OF_COLOURS), colorScheme).toEqual([]);
  }
}

const keys = (...names: readonly string[]) => async (page: Page): Promise<void> => {
  for (const name of names) await page.keyboard.press(name);
};
const seen = (page: Page, selector: string): Promise<void> => page.locator(selector).first().waitFor();

interface State {
  readonly query: string;
  readonly act?: (page: Page) => Promise<unknown>;
  /** What is there then. */
  readonly shows: string;
}

const STATES: Readonly<Record<string, State>> = {
  'plots that it chose itself': { query: '', shows: '.plot' },
  'the list, searched by key, with a stream unfolded': { query: TRENDS, act: keys('/', 'ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowDown'), shows: '.row[aria-selected=true]' },
  'the forms below the list': { query: TRENDS, act: (page) => page.locator('#sources details:not(#steering)').evaluateAll((all) => all.forEach((each) => each.setAttribute('open', ''))), shows: '#sources input' },
  'trends, with the tools of one': { query: TRENDS, act: (page) => page.locator('.plot').first().hover(), shows: '.readout-value' },
  'image, spectrum and waterfall': { query: FIELDS, act: (page) => page.locator('.plot').nth(1).hover(), shows: '.sample-value' },
  'planes that are chosen, and one that is not there': { query: '?span=10s&plot=plate/shots:temperature;panel=image;plane=1,0&plot=plate/stack:temperature;panel=spectrum&plot=plate/stack:temperature;panel=image;plane=9', act: (page) => page.locator('.plane-index').first().focus(), shows: '.plane-missing:not([hidden]) button' },
  'newest values and alarms among the plots': { query: '?span=10s&plot=test/hole:sine,plate/image:temperature;panel=table&plot=;panel=alarms', act: (page) => page.locator('.plot').first().hover(), shows: '.alarm' },
  'the processing graph, with a node in its form': { query: TRENDS, act: async (page) => { await keys('p')(page); await page.locator('.graph-box').last().click(); }, shows: '.graph-field' },
  'the card of a hole': { query: TRENDS, act: keys('Space', 'G'), shows: '#gap-card' },
  'the account with the findings of a hop': { query: RELAYED, act: async (page) => { await keys('a')(page); await page.locator('.path-place[data-at=hop-1]').click(); }, shows: '#findings' },
  'the account of a stream that is attacked': { query: '?span=10s&plot=test/chirp:a', act: keys('a'), shows: '#unauthentic' },
  'a run that it shows': { query: `${TRENDS}&during=shot-1`, act: keys('r', 'ArrowDown'), shows: '.run-current button' },
  'a view that it follows': { query: '?view=rod', act: keys('v'), shows: '.view-watchers li' },
};

/** What a key shows over the same page, and hides again. */
const OVERLAYS = { r: '.run-row', v: '.view-list button', k: '.alarm', e: '.export-part', '?': '#keys', c: '#measure .measure-slider', w: '.readout-value' };

describe('axe-core finds nothing serious in', () => {
  test.each(Object.keys(STATES))('%s', async (name) => {
    const { query, act, shows } = STATES[name] ?? { query: '', shows: '' };
    const page = await show(query);
    await listed(page);
    if (query !== '') await seen(page, '.plot');
    await act?.(page);
    await seen(page, shows);
    await expectAccessible(page);
  });

  test('views, alarms, export, keys, cursors and the large screen', async () => {
    const page = await show(TRENDS);
    await seen(page, '.readout-value');
    for (const [key, shows] of Object.entries(OVERLAYS)) {
      await page.keyboard.press(key);
      await seen(page, shows);
      await expectAccessible(page);
      await page.keyboard.press('Escape');
    }
  });

  test('the steering of an app', async () => {
    const page = await show(TRENDS);
    await page.route('**/api/steer', (route) => route.fulfill({ json: [{ app: 'sim/engine', state: 'open', parameters: [] }] }));
    const parameters = [{ ...PARAMETER, name: 'gain', value: 1 }, { ...PARAMETER, name: 'heater', dtype: 'bool', min: null, max: null, value: false }, { ...PARAMETER, name: 'mode', min: null, max: null, administered: true, value: 2 }];
    await page.route('**/api/steer/sim/engine', (route) => route.fulfill({ json: { app: 'sim/engine', parameters, totals: { received: 3, applied: 3 }, stopped: { app: true, all: false }, may: { steer: true, administer: true } } }));
    await page.locator('#steering summary').click();
    await seen(page, '[data-parameter="gain"]');
    await expectAccessible(page);
  });

  test('the form to sign in, with what was wrong', async () => {
    const page = await show('', {}, closed.url);
    await page.getByLabel('User').fill('ada');
    await page.getByLabel('Password').fill('difference engine');
    await page.keyboard.press('Enter');
    await until('the reason', async () => (await page.locator('#sign-in-note').innerText()) !== '');
    await expectAccessible(page);
    expect(pages.errors.splice(0)).toEqual([expect.stringContaining('401')]);
  });

  test('a phone, with the list over the plots', async () => {
    const page = await show(TRENDS, { viewport: { width: 390, height: 844 }, hasTouch: true });
    await seen(page, '.plot');
    await expectAccessible(page);
    await page.locator('#toggle-list').tap();
    await listed(page);
    await expectAccessible(page);
  });

  test('the guide to losses', async () => {
    const page = await show('');
    await page.goto(`${bus.url}/guide`);
    await page.evaluate(AXE);
    await expectAccessible(page);
  });
});

test('the tab key reaches the tree, whose arrows choose; a click on a row leaves the keys with the plots', async () => {
  const page = await show(TRENDS);
  await listed(page);
  await page.locator('#search').focus();
  await page.keyboard.press('Tab');
  expect(await page.evaluate(() => document.activeElement?.id)).toBe('rows');
  await keys('ArrowDown', 'ArrowDown')(page);
  const chosen = await page.locator('.row[aria-selected=true]').getAttribute('id');
  expect(await page.locator('#rows').getAttribute('aria-activedescendant')).toBe(chosen);
  await page.locator('.row-stream').nth(2).click();
  expect(await page.evaluate(() => document.activeElement?.id)).not.toBe('rows');
  expect(await page.locator('.row-stream').nth(2).getAttribute('aria-selected')).toBe('true');
  expect(await connection(page)).toBe('open');
});
