/**
 * A running simulation and three browsers: one presents a shared view of it, one follows, and one steers. They leave, and the
 * simulation goes on; its commands are in the archive. Real processes over real multicast.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { streamOf } from './api';
import { until } from './browser';
import { cleanUp, newFolder, record, startMonitor, type Monitor } from './bus';
import { privateBus, Program } from './command';
import { Pages } from './pages';

const pages = new Pages();
const VIEW = {
  title: 'Heated plate',
  window: { span_ns: 20_000_000_000, end_ns: null },
  order: ['image', 'probes'],
  'plot/image': { panel: 'image', traces: [{ stream: 'plate/image', channel: 'temperature' }], columns: 12, rows: 1, axis: { kind: 'auto' } },
  'plot/probes': { panel: 'trend', traces: ['heater', 'middle'].map((channel) => ({ stream: 'plate/probes', channel })), columns: 12, rows: 1, axis: { kind: 'auto' } },
};
let simulation: Program;
let recorder: Program;
let monitor: Monitor;

beforeAll(async () => {
  const [bus, archive] = [await privateBus(), await newFolder()];
  monitor = await startMonitor(bus, ['**'], ['--archive', archive]);
  recorder = record(bus, archive);
  simulation = new Program(['heated-plate', '--json', '--bus', bus]);
  await streamOf(monitor.url, 'steer/sim/plate');
  const made = await fetch(`${monitor.url}/api/views/plate`, { method: 'PUT', body: JSON.stringify({ fields: VIEW }) });
  expect(made.ok, await made.text()).toBe(true);
});
afterAll(cleanUp);

const heading = (page: Page): Promise<string> => page.locator('#shared-chip').innerText();
const says = (page: Page, words: string): Promise<void> => until(`the top bar to say "${words}"`, async () => (await page.locator('#shared').isVisible()) && (await heading(page)).includes(words));
const marks = (page: Page): Promise<string[]> => page.locator('.steer-mark').evaluateAll((all) => all.map((mark) => mark.getAttribute('title') ?? ''));

test('one presents, one follows, one steers; the change is marked for all at its sample, and the run goes on without them', async () => {
  const [presenter, follower, steerer] = [await pages.show(monitor.url, '?view=plate'), await pages.show(monitor.url, '?view=plate'), await pages.show(monitor.url, '?view=plate')];
  for (const page of [presenter, follower, steerer]) await until('both panels', async () => (await page.locator('.plot').count()) === 2);
  await presenter.getByRole('button', { name: 'Present', exact: true }).click();
  await says(presenter, 'you present');
  await says(follower, 'presents');
  await presenter.locator('#span').selectOption('5000000000');
  await until('the span of the presenter', async () => (await follower.locator('#span').inputValue()) === '5000000000');

  await steerer.locator('#steering summary').click();
  const lease = steerer.locator('[data-group="plate"]');
  await lease.getByRole('button', { name: 'Take', exact: true }).click();
  await until('the lease', async () => (await lease.innerText()).includes('You hold it.'));
  await steerer.getByLabel('New value of heater').fill('3');
  await steerer.getByLabel('New value of heater').press('Enter');
  const note = steerer.locator('[data-parameter="heater"] .steer-note');
  await until('the answer', async () => (await note.innerText()).includes('Applied: 3 kW from sample'));
  const sample = /from sample ([\d,]+) on/.exec(await note.innerText())?.[1];
  for (const page of [presenter, follower, steerer]) {
    await until('the mark at that sample', async () => (await marks(page)).filter((title) => title === `sim/plate was changed: sample ${sample}`).length >= 1);
  }

  for (const page of [presenter, follower, steerer]) await page.close();
  const { nextIndex } = await streamOf(monitor.url, 'plate/image');
  await streamOf(monitor.url, 'plate/image', (stream) => stream.nextIndex > nextIndex + 20);
  const ended = await simulation.end();
  const commands = ended.objects.find((object) => object['event'] === 'commands');
  expect(commands).toMatchObject({ received: 1, applied: 1, pending: 0 });
  expect((await recorder.end()).code).toBe(0);
});
