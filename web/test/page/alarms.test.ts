/**
 * The list of alarms over the fake server: its badge, its order, acknowledging, and limits in plots.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { drawn, until } from './browser';
import { Pages } from './pages';

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer({ alarms: true }); });
afterAll(() => fake.close());
beforeEach(() => fake.alarms.forEach((alarm) => { if (alarm.channel !== 2) alarm.acknowledged = null; }));

const badge = (page: Page): ReturnType<Page['locator']> => page.locator('#alarm-badge');
const rows = (page: Page): ReturnType<Page['locator']> => page.locator('#alarms .alarm');
const inputs = (page: Page): Promise<readonly string[]> => page.locator('#alarms .alarm-input').allInnerTexts();
const listed = (page: Page): Promise<void> => until('five alarms', async () => (await rows(page).count()) === 5);

/** Requests of a page for the list of alarms: there are none, since the server tells. */
const asks = (page: Page): (() => number) => {
  let count = 0;
  page.on('request', (request) => { if (request.url().endsWith('/api/alarms') && request.method() === 'GET') count += 1; });
  return () => count;
};

describe('alarms', () => {
  test('are there for a page that opens late: in the badge, and in a list with the most urgent first', async () => {
    const page = await pages.show(fake.url, '?span=10s&plot=test/hole:sine');
    await until('the badge', async () => (await badge(page).isVisible()) && (await badge(page).innerText()).includes('1 alarm'));
    await page.keyboard.press('k');
    await listed(page);
    expect(await inputs(page)).toEqual(['pressure', 'temperature', 'level', 'flow', 'current'].map((name) => `lab/plant:${name}`));
    const first = (await rows(page).first().innerText()).replaceAll('\u202f', ' ');
    expect(first).toMatch(/alarm, high\s+lab\/plant:pressure\s+5\.310 Pa · limit 5\.000 Pa\s+for 1 min/);
    expect(await rows(page).nth(1).innerText()).toMatch(/acknowledged by user:ada, .*: cooling is being repaired/);
    await page.keyboard.press('Escape');
    expect(await page.locator('#alarms').isVisible()).toBe(false);
  });

  test('are acknowledged with a reason, by keyboard alone', async () => {
    const page = await pages.show(fake.url, '?span=10s&plot=test/hole:sine');
    await page.keyboard.press('k');
    await listed(page);
    await rows(page).first().getByRole('textbox').focus();
    await page.keyboard.type('valve is stuck');
    // A list that is renewed meanwhile takes neither the focus nor the words.
    for (const alarm of fake.alarms) if (alarm.channel === 4) alarm.value = 1.75;
    await until('the new value', async () => (await page.locator('.alarm', { hasText: 'current' }).innerText()).includes('1.750'));
    expect(await rows(page).first().getByRole('textbox').inputValue()).toBe('valve is stuck');
    await page.keyboard.press('Enter');
    await until('the acknowledgement', async () => (await page.locator('.alarm', { hasText: 'pressure' }).innerText()).includes('acknowledged by anyone'));
    expect(fake.alarms[0]?.acknowledged).toMatchObject({ by: 'anyone', reason: 'valve is stuck' });
    await until('what waits now', async () => (await badge(page).innerText()).includes('1 unknown'));
  });

  test('whose state changed meanwhile are not acknowledged, and that is said', async () => {
    const page = await pages.show(fake.url, '?span=10s&plot=test/hole:sine');
    await page.route('**/api/alarms', async (route) => {
      if (route.request().method() !== 'POST') return route.continue();
      return route.fulfill({ status: 409, contentType: 'application/json', body: JSON.stringify({ error: 'the state has changed since it was seen', help: 'look at the new state' }) });
    });
    await page.keyboard.press('k');
    await listed(page);
    await rows(page).first().getByRole('button', { name: 'Acknowledge' }).click();
    await until('the reason', async () => (await rows(page).first().innerText()).includes('the state has changed since it was seen: look at the new state'));
    expect(fake.alarms[0]?.acknowledged).toBeNull();
    pages.errors.splice(0);
  });

  test('are a panel among the plots, with the rows of the overlay, kept in the address and told again after a reconnect', async () => {
    const page = await pages.show(fake.url, '?span=10s&plot=test/hole:sine');
    const asked = asks(page);
    await badge(page).click();
    await page.getByRole('button', { name: 'Show among the plots' }).click();
    const panel = page.locator('.plot[data-panel="alarms"]');
    const panelRows = panel.locator('.alarm');
    await until('rows in the panel', async () => (await panelRows.count()) === 5);
    expect(await page.locator('#alarms').isVisible()).toBe(false);
    await until('the address', () => new URL(page.url()).search.endsWith('plot=;panel=alarms'));
    const [pressure] = fake.alarms;
    fake.alarms.splice(0, 1);
    await until('the alarm to go', async () => (await panelRows.count()) === 4);
    // What ends while there is no connection is not among all of them after it.
    fake.cut();
    const [flow] = fake.alarms.splice(0, 1);
    await until('one more to go', async () => (await panelRows.count()) === 3);
    fake.alarms.unshift(pressure, flow);
    await until('both again', async () => (await panelRows.count()) === 5);
    await panelRows.first().getByRole('textbox').fill('valve is stuck');
    await panelRows.first().getByRole('button', { name: 'Acknowledge' }).click();
    await until('the acknowledgement', async () => (await panel.innerText()).includes('acknowledged by anyone'));
    await panelRows.first().locator('.alarm-input').click();
    await until('the plot of the watched channel', async () => (await page.locator('.plot').count()) === 3);
    expect(asked()).toBe(0);
    await page.reload();
    await until('the panel again', async () => (await panelRows.count()) === 5);
  });

  test('draw their limits in plots of the watched channel', async () => {
    const warn = async (page: Page): Promise<number> => page.evaluate(() => {
      const canvas = document.querySelector<HTMLCanvasElement>('.plot-body canvas');
      const context = canvas?.getContext('2d');
      if (canvas === null || context === null || context === undefined) return 0;
      const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
      let found = 0;
      // The colour of warnings, #f3b73e.
      for (let i = 0; i < data.length; i += 4) if (data[i] === 0xf3 && data[i + 1] === 0xb7 && data[i + 2] === 0x3e) found += 1;
      return found;
    });
    const end = (BigInt(Date.now()) * 1_000_000n / 4_000_000_000n - 3n) * 4_000_000_000n + 1_000_000_000n;
    const page = await pages.show(fake.url, `?span=1ms&end=${end}&plot=test/hole:sine;y=fixed:-2:2`);
    await until('a dashed line', async () => (await warn(page)) > 100);
    const other = await pages.show(fake.url, `?span=1ms&end=${end}&plot=test/chirp:a;y=fixed:-2:2`);
    await drawn(other);
    expect(await warn(other)).toBe(0);
  });

  test.each([[390, 844], [820, 1180], [1440, 900], [2560, 1440]])('fit a page of %i × %i pixels, and are opened by touch', async (width, height) => {
    const page = await pages.show(fake.url, '?span=10s&plot=test/hole:sine', { viewport: { width, height }, hasTouch: true });
    await until('the badge', () => badge(page).isVisible());
    await badge(page).tap();
    await listed(page);
    const beyond = await page.locator('#alarms :is(button, input, span, p), #alarm-badge').evaluateAll((all) => all
      .filter((each) => each instanceof HTMLElement && each.offsetWidth > 0 && (each.getBoundingClientRect().right > innerWidth || each.getBoundingClientRect().left < 0)).length);
    expect(beyond).toBe(0);
    await page.locator('#alarms button[title^="Close"]').tap();
    expect(await page.locator('#alarms').isVisible()).toBe(false);
  });
});
