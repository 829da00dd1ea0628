/**
 * The real page on the real secured demo: a viewer signs in through TLS, sees the attack as an alarm and in the account, and
 * the locks of the streams. At the end everything that the demo checks holds.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from './browser';
import { cleanUp, startDemo, type Demo } from './bus';
import { row } from './list';
import { Pages } from './pages';

const pages = new Pages();
let demo: Demo;

beforeAll(async () => { demo = await startDemo(['--secure']); });
afterAll(cleanUp);

test('a viewer of the secured demo signs in, and sees who is refused and why', async () => {
  const [user = '', password = ''] = (await demo.program.word('sign in ')).split(/\s+/);
  expect(demo.url).toMatch(/^https:/);
  const page = await pages.open(demo.url, '?span=10s&plot=signal/ecg:MLII', { ignoreHTTPSErrors: true });
  await page.getByLabel('User').fill(user);
  await page.getByLabel('Password').fill(password);
  await page.keyboard.press('Enter');
  await until('the name', async () => (await page.locator('#visitor').innerText()).startsWith(user));
  await until('the stream', async () => (await row(page, 'ecg').count()) === 1);
  expect(await row(page, 'ecg').locator('.row-lock').isVisible()).toBe(true);
  // A viewer may not steer.
  expect(await page.locator('#inject').isDisabled()).toBe(true);
  const sentence = page.locator('#sentence');
  await until('the alarm', async () => /^Somebody forges (signal\/ecg|test\/sine)/.test(await sentence.innerText()));
  await sentence.click();
  const reasons = page.locator('#unauthentic dt');
  await until('every reason', async () => (await reasons.count()) === 4);
  expect((await reasons.allInnerTexts()).map((text) => text.replace(/\s[\d\s\u202f]+$/, ''))).toEqual(['wrong tag', 'replayed', 'in clear', 'no key']);
  expect(await page.locator('#account-facts .level').innerText()).toBe('group');
  expect(await page.locator('#law').getAttribute('data-balanced')).toBe('true');
});

test('everything that the secured demo checks holds', async () => {
  const { code, said, objects } = await demo.end();
  expect(code, said).toBe(0);
  expect(objects.at(-1)).toMatchObject({ event: 'defence', complaints: [], clear_datagrams: 0 });
});
