/**
 * The keys of a secured bus, over the fake server: a row of the account, and a warning when the key service is away.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { listed, until } from './browser';
import { row } from './list';
import { Pages } from './pages';

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer({ silentKeys: true }); });
afterAll(() => fake.close());

test('the account of a secured stream tells its keys, and since when their service is silent', async () => {
  const page = await pages.open(fake.url, '?span=10s&plot=test/chirp:a');
  await listed(page);
  const keys = page.locator('#account-keys');
  await row(page, 'chirp').click();
  if (!(await page.locator('#account').isVisible())) await page.keyboard.press('a');
  await until('the keys', () => keys.isVisible());
  expect(await keys.getAttribute('data-mood')).toBe('warn');
  const text = (await keys.innerText()).replaceAll('\u202f', ' ');
  expect(text).toMatch(/^secret 1a2b3c4d in use · key service keys\.lab\.example:7409 silent since \d\d:\d\d:\d\d · secrets held last for 45 min/);
  expect(text).toContain('Start the key service again: tallycast keys serve.');
  await row(page, 'cpu').click();
  await until('no keys', async () => !(await keys.isVisible()));
});
