/**
 * Pictures of the page in each of its states, on four screens, dark and light, to be looked at:
 * `npm run tour [-- FOLDER [PATTERN]]` writes `STATE-SCREEN-THEME.png`, of the built page over the fake server.
 */
import { mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { startFakeServer } from './fake-server.mjs';

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {{options?: import('./fake-server.mjs').Options, query?: string, act?: (page: Page) => Promise<unknown>}} State */

const EXECUTABLE = process.env['CHROMIUM'] ?? '/usr/bin/chromium-headless-shell';
const [folder = join(tmpdir(), 'tallycast-tour'), pattern = '.'] = process.argv.slice(2);

const SCREENS = /** @type {const} */ ([
  { screen: 'phone', width: 390, height: 844, deviceScaleFactor: 2, hasTouch: true },
  { screen: 'tablet', width: 820, height: 1180, deviceScaleFactor: 1, hasTouch: true },
  { screen: 'desk', width: 1440, height: 900, deviceScaleFactor: 1, hasTouch: false },
  { screen: 'wall', width: 3840, height: 2160, deviceScaleFactor: 1, hasTouch: false },
]);

const GAPS = '?span=10s&plot=test/hole:sine&plot=test/injected:sine';
const FIELDS = '?span=10s&plot=plate/image:temperature;panel=image&plot=lab/spectrum:x;panel=spectrum&plot=lab/spectrum:x;panel=waterfall';
const PLANES = '?span=10s&plot=plate/stack:temperature;panel=image;plane=2&plot=plate/shots:temperature;panel=image;plane=1,0&plot=lab/probes:x;panel=waterfall;plane=1';
const RELAYED = '?span=10s&plot=test/injected:sine';
const CROWD = ['geo/grfo/seismogram:BHZ,geo/grfo/seismogram:BHN,geo/grfo/seismogram:BHE,hall/microphones/stereo:left,hall/microphones/stereo:right',
  'test/carrier:f', 'host/daq-3/cpu:user,host/daq-3/cpu:softirq', 'w7x/magnetics/mirnov:probe 7', 'lab/old/pump:pressure', 'host/daq-3/net:received'];

/** What the shared views show. */
const VIEW = {
  window: { span_ns: '#10000000000#', end_ns: null }, order: ['p1', 'p2', 'p3'], notes: 'Shot 40 to 60: look for the step in the second plot.',
  ...Object.fromEntries(['test/hole:sine', 'test/chirp:a', 'w7x/ecrh/power:gyrotron 1'].map((name, i) => [`plot/p${i + 1}`, { panel: 'trend', traces: [{ stream: name.split(':')[0], channel: name.split(':')[1] }] }])),
};

/** @type {Record<string, State>} */
const STATES = {
  live: {},
  list: { query: '?span=10s' },
  crowd: { query: `?span=10s&plot=${CROWD.join('&plot=')}` },
  gap: { query: GAPS, act: (page) => page.keyboard.press('G') },
  past: { query: '?span=30s&plot=clinic/ward-2/ecg:MLII,clinic/ward-2/ecg:V5&plot=w7x/ecrh/power:gyrotron 1', act: back },
  cursors: { query: `${GAPS.replace('10s', '4s')}&plot=w7x/ecrh/power:gyrotron 1,w7x/ecrh/power:gyrotron 2`, act: (page) => page.keyboard.press('c') },
  cursorsaway: { query: `${GAPS}&cursors=1000000000000000000,9000000000000000000` },
  mean: { query: '?span=10s&plot=test/pulses:on,w7x/magnetics/mirnov:probe 7&plot=hall/microphones/stereo:left,hall/microphones/stereo:right&plot=w7x/ecrh/power:gyrotron 1', act: (page) => page.mouse.move(300, 300) },
  table: { options: { alarms: true, fields: true }, query: `?span=10s&plot=${CROWD[0]},plate/image:temperature,lab/old/pump:pressure,test/hole:sine;panel=table&plot=;panel=alarms` },
  account: { query: '?span=10s&plot=w7x/ecrh/power:gyrotron 1&plot=test/hole:sine', act: (page) => page.keyboard.press('a') },
  relay: { options: { hops: 2 }, query: RELAYED, act: (page) => page.keyboard.press('a') },
  backfill: { options: { hops: 2, fullArchive: true }, query: RELAYED, act: findings },
  chain: { options: { hops: 8 }, query: RELAYED, act: (page) => page.keyboard.press('a') },
  chaingap: { options: { hops: 8 }, query: RELAYED, act: chainGap },
  chainfind: { options: { hops: 8 }, query: RELAYED, act: findings },
  derive: { query: GAPS, act: unfold },
  graph: { query: GAPS, act: (page) => page.keyboard.press('p') },
  graphnode: { query: GAPS, act: (page) => graph(page, 'lab/mirnov/band') },
  graphtable: { query: GAPS, act: (page) => graph(page, 'lab/ecrh/kilowatts') },
  graphproblem: { query: GAPS, act: graphProblem },
  graphstale: { query: GAPS, act: graphStale },
  graphbarred: { options: { users: true }, act: graphBarred },
  keys: { act: (page) => page.keyboard.press('?') },
  disk: { options: { fullDisk: true } },
  empty: { options: { streams: 0 } },
  refused: { options: { forbid: true } },
  signin: { options: { users: true } },
  wrong: { options: { users: true }, act: (page) => signIn(page, 'difference engine') },
  attack: { options: { attack: true }, query: '?span=10s&plot=test/chirp:a', act: (page) => page.keyboard.press('a') },
  silent: { options: { silentKeys: true }, query: '?span=10s&plot=test/chirp:a', act: (page) => page.keyboard.press('a') },
  flood: { options: { attack: true }, query: '?span=10s&plot=test/chirp:a' },
  closed: { options: { users: true }, query: '?span=10s&plot=test/chirp:a', act: closed },
  shared: { query: '?view=rod', act: (page) => page.locator('#shared-act').dispatchEvent('click') },
  sharedpanel: { query: '?view=rod', act: (page) => page.keyboard.press('v') },
  sharedleft: { query: '?watch=', act: (page) => page.keyboard.press('ArrowLeft') },
  viewspanel: { query: GAPS, act: (page) => page.keyboard.press('v') },
  waterfall: { options: { fields: true }, query: '?span=1min&plot=lab/spectrum:x;panel=waterfall&plot=plate/line:profile;panel=waterfall' },
  many: { query: `?span=10s${'&plot=test/hole:sine&plot=test/chirp:a&plot=w7x/ecrh/power:gyrotron 1'.repeat(8)}` },
  fields: { options: { fields: true }, query: FIELDS },
  planes: { options: { fields: true }, query: PLANES },
  planemissing: { options: { fields: true }, query: `${PLANES.replace('plane=2', 'plane=9')}&plot=plate/image:temperature;panel=image;plane=1` },
  alarms: { options: { alarms: true }, query: GAPS, act: (page) => page.keyboard.press('k') },
  export: { query: GAPS, act: (page) => page.keyboard.press('e') },
  steering: { query: GAPS, act: steer },
  runs: { options: { fields: true }, query: '?during=shot-2&t0=run&plot=test/hole:sine&plot=lab/spectrum:x;panel=waterfall', act: (page) => page.keyboard.press('r') },
  runmarks: { query: '?span=1min&plot=test/hole:sine&plot=test/chirp:a' },
  runopen: { query: '?during=shot-3&plot=test/hole:sine&plot=test/chirp:a' },
  rununknown: { query: '?during=shot-99&plot=test/hole:sine' },
  older: { options: { pageProtocol: 0 } },
};

/** A run that ended, one that goes on, and one whose start is not known. */
const runsNow = () => [[60, 45], [40, 25], [15, null], [null, 70]].map(([from, to], i) => {
  const at = (/** @type {number | null | undefined} */ seconds) => (seconds === null || seconds === undefined ? null : BigInt(Date.now()) * 1_000_000n - BigInt(seconds) * 1_000_000_000n);
  const by = { host: 'daq-3', principal: 'user:anna' };
  const state = from === null ? 'no_start' : to === null ? 'open' : 'stopped';
  return { id: `shot-${i + 1}`, state, start_ns: at(from), end_ns: at(to), labels: { program: 'ohmic', gas: 'D2' }, started_by: from === null ? null : by, stopped_by: to === null ? null : by, clock_behind_ns: 0 };
});

mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: EXECUTABLE, args: ['--headless', '--no-sandbox', '--disable-gpu'] });
for (const [state, { options, query = '', act }] of Object.entries(STATES)) {
  const server = await startFakeServer(options);
  for (const [name, title] of [['rod', 'Heated rod'], ['shift-2', ''], ['Gyrotrons', 'Gyrotrons, all of them']]) server.views.put(name ?? '', { ...VIEW, title }, 'anna');
  for (const { screen, width, height, ...surroundings } of SCREENS) {
    for (const colorScheme of /** @type {const} */ (['dark', 'light'])) {
      const name = `${state}-${screen}-${colorScheme}`;
      if (!new RegExp(pattern).test(name)) continue;
      const page = await browser.newPage({ ...surroundings, viewport: { width, height }, colorScheme, locale: 'en-US', timezoneId: 'Europe/Berlin' });
      server.runs.splice(0, server.runs.length, ...runsNow());
      await page.goto(`${server.url}/${query === '?watch=' ? `${query}${server.views.documents.get('rod')?.id}` : query}`);
      await page.waitForTimeout(1_500);
      if (screen === 'wall') await page.keyboard.press('w');
      await act?.(page);
      await page.waitForTimeout(1_500);
      await page.screenshot({ path: join(folder, `${name}.png`) });
      await page.close();
    }
  }
  await server.close();
}
await browser.close();
console.log(`pictures in ${folder}`);

/** Into the past, over the line where live memory ends. @param {Page} page */
async function back(page) {
  for (let i = 0; i < 6; i += 1) await page.keyboard.press('ArrowLeft');
}

/** A gap further back, which has settled. @param {Page} page */
async function chainGap(page) {
  for (let i = 0; i < 3; i += 1) await page.keyboard.press('G');
}

/** What the first link of a chain lost. @param {Page} page */
async function findings(page) {
  await page.keyboard.press('a');
  await page.locator('.path-place[data-at=hop-1]').click();
}

/** The forms below the list. @param {Page} page */
async function unfold(page) {
  if (!await page.locator('#list').isVisible()) await page.keyboard.press('l');
  await page.locator('#sources details').evaluateAll((all) => all.forEach((each) => each.setAttribute('open', '')));
}

/** An app with a parameter of each control. @param {Page} page */
async function steer(page) {
  const parameter = { dtype: 'f8', shape: [], unit: 'V', min: 0, max: 10, greatest_step: null, administered: false, group: 'heating', known: true, revision: 4, may: true, holder: 'user:bob', yours: false };
  const parameters = [{ ...parameter, name: 'gain', value: 2.5 }, { ...parameter, name: 'heater', dtype: 'bool', min: null, max: null, value: true }, { ...parameter, name: 'mode', dtype: 'i32', min: null, max: null, administered: true, value: 2 }];
  await page.route('**/api/steer', (route) => route.fulfill({ json: [{ app: 'sim/engine', state: 'open', parameters: [] }] }));
  await page.route('**/api/steer/sim/engine', (route) => route.fulfill({ json: { app: 'sim/engine', parameters, totals: { received: 4, applied: 4 }, stopped: { app: false, all: false }, may: { steer: true, administer: true } } }));
  if (!await page.locator('#list').isVisible()) await page.keyboard.press('l');
  await page.locator('#steering summary').click();
}

/** A node of the graph, in its form. @param {Page} page @param {string} name */
async function graph(page, name) {
  await page.keyboard.press('p');
  await page.locator('.graph-box', { has: page.locator(`.graph-title:text-is("${name}")`) }).click();
}

/** A new node with a problem. @param {Page} page */
async function graphProblem(page) {
  await graph(page, 'lab/ecrh/slow');
  await page.getByRole('button', { name: '+ Node that reads it' }).click();
  await page.getByLabel('every', { exact: true }).fill('1500us');
  await page.getByLabel('every', { exact: true }).press('Tab');
}

/** A change that meets one of another visitor. @param {Page} page */
async function graphStale(page) {
  await graph(page, 'lab/ecrh/slow');
  await page.getByLabel('every', { exact: true }).fill('200ms');
  await page.getByLabel('every', { exact: true }).press('Tab');
  await page.evaluate(async () => {
    const served = await (await fetch('/api/graph')).json();
    const node = served.nodes.map((/** @type {any} */ { offered_samples, source_samples, late_samples, absent, error, process, ...value }) => (value.name === 'lab/ecrh/slow' ? { ...value, every: '50ms' } : value));
    await fetch('/api/graph', { method: 'PUT', headers: { 'if-match': `"${served.revision}"` }, body: JSON.stringify({ node: node.slice(0, -1) }) });
  });
}

/** A visitor that may only look. @param {Page} page */
async function graphBarred(page) {
  if (await page.locator('#sign-in').isVisible()) await signIn(page, 'analytical engine');
  await page.locator('html[data-connection=open]').waitFor();
  await graph(page, 'lab/mirnov/band');
}

/** @param {Page} page @param {string} password */
async function signIn(page, password) {
  await page.getByLabel('User').fill('ada');
  await page.getByLabel('Password').fill(password);
  await page.keyboard.press('Enter');
}

/** Signed in, and then out from elsewhere: the page is closed. @param {Page} page */
async function closed(page) {
  await signIn(page, 'analytical engine');
  await page.locator('html[data-connection=open]').waitFor();
  await page.evaluate(() => fetch('/api/sign-out', { method: 'POST' }));
  await page.locator('#sign-in').waitFor();
}
