/**
 * Steering an app from the page, over the fake server and an app that is none: it keeps parameters, leases and a switch.
 */
import type { Page, Route } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { listed, until, windowOf } from './browser';
import { Pages } from './pages';

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer({ steered: true }); });
afterAll(() => fake.close());

interface Body { readonly action?: string; readonly parameter?: string; readonly value?: unknown; readonly if_revision?: number; readonly reason?: string }

/** An app as the monitor tells of it. */
class App {
  readonly parameters = [
    this.#parameter('gain', { unit: 'V', min: 0, max: 10, value: 1 }),
    this.#parameter('heater', { dtype: 'bool', group: 'heating', value: false }),
    this.#parameter('mode', { dtype: 'i32', administered: true, value: 0 }),
  ];
  readonly commands: Body[] = [];
  readonly actions: string[] = [];
  holder: string | null = null;
  stopped = false;

  #parameter(name: string, more: { readonly value: unknown; readonly [key: string]: unknown }): Record<string, unknown> & { name: string; revision: number } {
    return { name, dtype: 'f8', shape: [], unit: '', min: null, max: null, greatest_step: null, administered: false, group: null, known: true, revision: 0, may: true, ...more };
  }

  async serve(page: Page): Promise<void> {
    await page.route('**/api/steer', (route) => route.fulfill({ json: [{ app: 'sim/engine', state: 'open', parameters: [] }] }));
    await page.route('**/api/steer/sim/engine', (route) => this.#answer(route));
  }

  #answer(route: Route): Promise<void> {
    const request = route.request();
    const body = (request.postDataJSON() ?? {}) as Body;
    const yours = this.holder === request.headers()['tallycast-page'];
    if (request.method() === 'PUT') return route.fulfill({ json: this.#command(body) });
    if (request.method() === 'POST') {
      this.actions.push(body.action ?? '');
      if (['stop', 'resume', 'take_over'].includes(body.action ?? '') && (body.reason ?? '') === '') {
        return route.fulfill({ status: 400, json: { error: 'a reason is missing', help: 'write why' } });
      }
      if (body.action === 'lease' || body.action === 'take_over') this.holder = request.headers()['tallycast-page'] ?? '';
      if (body.action === 'release') this.holder = null;
      if (body.action === 'stop' || body.action === 'resume') this.stopped = body.action === 'stop';
      return route.fulfill({ json: {} });
    }
    const parameters = this.parameters.map((each) => ({ ...each, holder: this.holder === null ? null : 'user:bob', yours }));
    const totals = { received: this.commands.length, applied: this.commands.length };
    return route.fulfill({ json: { app: 'sim/engine', parameters, totals, stopped: { app: this.stopped, all: false }, may: { steer: true, administer: true } } });
  }

  #command(body: Body): object {
    this.commands.push(body);
    const parameter = this.parameters.find(({ name }) => name === body.parameter);
    if (parameter === undefined || parameter.revision !== body.if_revision) return { outcome: 'refused', rule: 'revision', advice: 'read it and decide again' };
    if (typeof body.value === 'number' && body.value > 10) return { outcome: 'refused', rule: 'range', advice: 'keep to its minimum and maximum' };
    parameter['value'] = body.value;
    parameter.revision += 1;
    return { outcome: 'applied', index: 1234, revision: parameter.revision, value: body.value };
  }
}

async function panel(app: App, options = {}): Promise<Page> {
  const page = await pages.open(fake.url, '?span=10s&plot=test/chirp:a', options);
  await listed(page);
  await app.serve(page);
  await page.locator('#steering summary').click();
  await page.locator('[data-parameter="gain"]').waitFor();
  return page;
}

const note = (page: Page, name: string): Promise<string> => page.locator(`[data-parameter="${name}"] .steer-note`).innerText();
const says = (page: Page, name: string, words: string): Promise<void> => until(words, async () => (await note(page, name)).includes(words));

test('a number is set by keyboard and slider, and the page says what became of it', async () => {
  const app = new App();
  const page = await panel(app);
  const field = page.getByLabel('New value of gain');
  await field.fill('2.5');
  // An edit stays while the app is looked at, and Escape ends it.
  await page.waitForResponse('**/api/steer/sim/engine');
  expect(await field.inputValue()).toBe('2.5');
  await field.press('Escape');
  expect(await field.inputValue()).toBe('1');
  await field.fill('2.5');
  await field.press('Enter');
  await says(page, 'gain', 'Applied: 2.5 V from sample 1,234 on (revision 1)');
  await until('the value', async () => (await page.locator('[data-parameter="gain"] output').innerText()) === '2.5 V');
  await page.getByLabel('Slider of gain').fill('7');
  expect(await field.inputValue()).toBe('7');
  await page.getByLabel('Set gain').click();
  await says(page, 'gain', 'Applied: 7 V');
  // An edit is of the revision that the page knows when it begins.
  await until('the other value', async () => (await page.locator('[data-parameter="gain"] output').innerText()) === '7 V');
  await field.fill('11');
  await field.press('Enter');
  await says(page, 'gain', 'Refused by the rule range');
  // Somebody else changes it between the edit and the command.
  await field.fill('3');
  const gain = app.parameters[0];
  if (gain !== undefined) gain.revision += 1;
  await until('the other revision', async () => (await page.locator('[data-parameter="gain"] .steer-facts').innerText()).includes('revision 3'));
  await field.press('Enter');
  await says(page, 'gain', 'Refused by the rule revision');
  expect(app.commands.at(-1)).toEqual({ parameter: 'gain', value: 3, if_revision: 2 });
});

test('a lease is taken and released visibly, and an administered parameter is confirmed', async () => {
  const app = new App();
  const page = await panel(app);
  const lease = page.locator('[data-group="heating"]');
  const heater = page.getByRole('switch', { name: 'heater' });
  expect(await heater.isDisabled()).toBe(true);
  await lease.getByRole('button', { name: 'Take', exact: true }).click();
  await until('the lease', async () => (await lease.innerText()).includes('You hold it.'));
  await heater.click();
  await says(page, 'heater', 'Applied: on');
  await until('the switch', async () => (await heater.getAttribute('aria-checked')) === 'true');
  await until('a renewal', () => app.actions.filter((action) => action === 'lease').length > 1);
  await lease.getByRole('button', { name: 'Release' }).click();
  await until('the release', async () => (await lease.innerText()).includes('It is free.'));
  app.holder = 'another page';
  await until('the other holder', async () => (await lease.innerText()).includes('user:bob holds it.'));
  await page.getByLabel('Reason to take over heating').fill('shift');
  await lease.getByRole('button', { name: 'Take over' }).click();
  await until('the take-over', async () => (await lease.innerText()).includes('You hold it.'));
  // Folding the panel gives the lease back.
  await page.locator('#steering summary').click();
  await until('the release', () => app.holder === null);
  await page.locator('#steering summary').click();

  await page.getByLabel('New value of mode').fill('2');
  await page.getByLabel('Set mode').click();
  await says(page, 'mode', 'Press again to confirm');
  expect(app.commands.length).toBe(1);
  await page.getByLabel('Set mode').click();
  await says(page, 'mode', 'Applied: 2');
});

test('the kill switch needs a reason, and disables every control', async () => {
  const app = new App();
  const page = await panel(app);
  const stop = page.locator('.steer-stop');
  await stop.getByRole('button').click();
  await until('the refusal', async () => (await stop.innerText()).includes('a reason is missing'));
  expect(pages.errors.splice(0)).toEqual([expect.stringContaining('400')]);
  await page.getByLabel('Reason to stop or resume').fill('smoke');
  await stop.getByRole('button').click();
  await until('the stop', async () => (await stop.innerText()).includes('Steering is stopped'));
  expect(await page.getByLabel('New value of gain').isDisabled()).toBe(true);
  await page.getByLabel('Reason to stop or resume').fill('it was steam');
  await stop.getByRole('button', { name: 'Resume' }).click();
  await until('the end of the stop', () => page.getByLabel('New value of gain').isEnabled());
});

test('a change is marked in the plots at its time, also while time passes, and where it is out of view it is not', async () => {
  const page = await pages.open(fake.url, '?span=10s&plot=test/chirp:a');
  const changed = BigInt(Date.now() - 2_000) * 1_000_000n;
  const asked: string[] = [];
  await page.route('**/api/range?**', (route) => {
    asked.push(new URL(route.request().url()).searchParams.get('channel') ?? '');
    const at = Number(changed);
    return route.fulfill({ json: { columns: [[at - 1e6, at, null, null], [at, at + 1e6, 1234, 1234]] } });
  });
  await listed(page);
  const mark = page.locator('.steer-mark');
  await mark.waitFor({ state: 'attached' });
  expect(await mark.getAttribute('title')).toBe('sim/engine was changed: sample 1,234');
  expect(new Set(asked)).toEqual(new Set(['index']));
  await page.keyboard.press('Space');
  await until('the pause', () => page.evaluate(() => document.documentElement.hasAttribute('data-paused')));
  const share = (): Promise<number> => mark.evaluate((line) => {
    const over = line.closest('.plot-body')?.querySelector('.u-over')?.getBoundingClientRect();
    return over === undefined ? Number.NaN : (line.getBoundingClientRect().left - over.left) / over.width;
  });
  await until('the address', () => windowOf(page).endNs !== null);
  const end = windowOf(page).endNs ?? 0n;
  const expected = Number(changed - (end - 10_000_000_000n)) / 1e10;
  await until('the place', async () => Math.abs((await share()) - expected) < 0.01, 20_000);
  for (let i = 0; i < 8; i += 1) await page.keyboard.press('ArrowLeft');
  await until('no mark', async () => (await mark.count()) === 0);
});

test.each([[360, 640], [768, 1024], [1280, 800], [2560, 1440]])('the panel fits a screen of %d × %d, dark and light', async (width, height) => {
  for (const colorScheme of ['dark', 'light'] as const) {
    const page = await pages.open(fake.url, '?span=10s&plot=test/chirp:a', { viewport: { width, height }, colorScheme, hasTouch: width < 1000 });
    await listed(page).catch(() => undefined);
    const app = new App();
    await app.serve(page);
    if (!(await page.locator('#list').isVisible())) await page.locator('#toggle-list').click();
    await page.locator('#steering summary').click();
    await page.locator('[data-parameter="gain"]').waitFor();
    const outside = await page.locator('#steering').evaluate((element) => {
      const edge = element.getBoundingClientRect().right;
      return [...element.querySelectorAll('*')].filter((each) => each.getBoundingClientRect().right > edge + 1).map((each) => each.outerHTML.slice(0, 80));
    });
    expect(outside).toEqual([]);
  }
});
