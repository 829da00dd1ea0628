/**
 * A shared view at a monitor server: one page presents it, one follows it, one may only watch.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { drawn, query, until } from './browser';
import { cleanUp, startSineMonitor, type Monitor } from './bus';
import { Pages } from './pages';

const pages = new Pages();
let monitor: Monitor;

beforeAll(async () => {
  monitor = await startSineMonitor();
});
afterAll(cleanUp);

const says = (page: Page, words: string): Promise<void> => until(`the top bar to say "${words}"`, async () =>
  (await page.locator('#shared').isVisible()) && (await page.locator('#shared-chip').innerText()).includes(words));
const spanOf = (page: Page): Promise<string> => page.locator('#span').inputValue();

/** Opens an address and waits for its plot. */
async function shown(address: string): Promise<Page> {
  const page = await pages.show(monitor.url, address);
  await drawn(page);
  return page;
}

test('what a page presents is on those that follow, and no read-only link changes it', async () => {
  const presenter = await shown('?span=10s&plot=test/sine:ch0');
  await presenter.keyboard.press('v');
  await presenter.getByLabel('Save what is shown as').fill('Heated rod');
  await presenter.keyboard.press('Enter');
  await presenter.getByRole('button', { name: 'Follow Heated-rod' }).click();
  await says(presenter, 'Heated rod · all may edit');
  const follower = await shown('?view=Heated-rod');
  await presenter.getByRole('button', { name: 'Present', exact: true }).click();
  await says(presenter, 'you present · 2 watch');
  await says(follower, 'a visitor presents · 2 watch');
  await presenter.locator('#span').selectOption('5000000000');
  await until('the span of the presenter', async () => (await spanOf(follower)) === '5000000000');
  await follower.keyboard.press('Space');
  await says(follower, 'You left Heated rod');
  await follower.getByRole('button', { name: 'Rejoin' }).click();
  await says(follower, 'a visitor presents · 2 watch');

  const id = await presenter.evaluate(async () => String(((await (await fetch('/api/views/Heated-rod')).json()) as Record<string, unknown>)['read_only_id']));
  const watcher = await shown(`?watch=${id}`);
  await says(watcher, 'a visitor presents · 3 watch');
  const answer = await watcher.evaluate((link) => new Promise<string>((resolve) => {
    const socket = new WebSocket(`ws://${location.host}/api/live`);
    socket.onopen = () => {
      socket.send(JSON.stringify({ type: 'follow', read_only_id: link }));
      socket.send(JSON.stringify({ type: 'edit', fields: { title: 'Mine' } }));
    };
    socket.onmessage = ({ data }) => { if (typeof data === 'string' && data.includes('shared_view_refused')) resolve(data); };
  }), id);
  expect(JSON.parse(answer)).toMatchObject({ type: 'shared_view_refused', fields: ['title'] });

  await presenter.getByRole('button', { name: 'Stop presenting' }).click();
  await says(follower, 'all may edit');
  await presenter.keyboard.press('v');
  await presenter.getByRole('button', { name: 'Delete Heated-rod', exact: true }).click();
  await presenter.getByRole('button', { name: 'Delete Heated-rod now' }).click();
  for (const page of [presenter, follower, watcher]) await says(page, 'Heated rod was deleted');
  await until('an address of its own', () => query(follower).get('view') === null);
  expect(await follower.locator('.plot').count()).toBe(1);
});
