/**
 * A forged flood, over the fake server: an alarm of the page that leads to its reasons, and no loss.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { listed, until } from './browser';
import { row } from './list';
import { Pages } from './pages';

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer({ attack: true }); });
afterAll(() => fake.close());

test('a forged flood is an alarm of the page, which opens the account with reasons and remedies', async () => {
  const page = await pages.open(fake.url, '?span=10s&plot=test/carrier:f');
  await listed(page);
  const sentence = page.locator('#sentence');
  await until('the alarm', async () => (await sentence.getAttribute('data-mood')) === 'bad');
  expect((await sentence.innerText()).replaceAll('\u202f', ' ')).toMatch(/^Somebody forges test\/chirp: [\d.]+ k datagrams refused, no account changed$/);
  expect(await row(page, 'chirp').locator('.row-mark').innerText()).toContain('unauthentic');
  await sentence.click();
  const alarm = page.locator('#unauthentic');
  await until('the reasons', () => alarm.isVisible());
  expect(await page.locator('#account-title').innerText()).toBe('test/chirp');
  expect(await alarm.innerText()).toContain('They changed nothing in this account');
  expect(await alarm.locator('dd').count()).toBe(2);
  expect(await page.locator('#law').getAttribute('data-balanced')).toBe('true');
  // The loss of others is told again once the attack is over: here it is not.
  expect(await page.locator('.rung[data-place="network"]:not([data-zero])').count()).toBe(0);
});

test('the level of a stream is a sign in the list and a word in its account', async () => {
  const page = await pages.open(fake.url, '?span=10s&plot=test/chirp:a');
  await listed(page);
  expect(await row(page, 'chirp').locator('.row-lock').isVisible()).toBe(true);
  expect(await row(page, 'cpu').locator('.row-lock').isVisible()).toBe(false);
  const level = page.locator('#account-facts .level');
  for (const [name, word] of [['chirp', 'group'], ['cpu', 'clear']] as const) {
    await row(page, name).click();
    if (!(await page.locator('#account').isVisible())) await page.keyboard.press('a');
    await until(word, async () => (await level.innerText()) === word);
  }
  expect(await level.getAttribute('title')).toContain('every host on the network can read and forge it');
});
